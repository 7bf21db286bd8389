//go:build unix

package pgfifo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
	"github.com/pgfifo/pgfifo/migrations"
)

// connectIn returns a pool that sends its statements in the given way.
func connectIn(t *testing.T, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = mode
	cfg.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// clientIn returns a client that has such a pool to itself.
func clientIn(t *testing.T, url string, mode pgx.QueryExecMode) *fifo.Client {
	t.Helper()
	client := fifo.Open(connectIn(t, url, mode), nil)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return client
}

// In transaction mode, many producers share few sessions, in every way of enqueueing and most ways of pgx to send
// statements; direct workers do the jobs of each group once and in order. Named prepared statements, pgx's default,
// need a pgbouncer that knows them, 1.21 or later. QueryExecModeDescribeExec is not for it: what it describes in one
// transaction, it executes in another.
func TestProducersBehindPoolerInTransactionMode(t *testing.T) {
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeExec,
		pgx.QueryExecModeSimpleProtocol,
	}
	pgtest.OverEach(t, modes, func(t *testing.T, mode pgx.QueryExecMode) {
		s := newSite(t)
		// Fewer than producers: those who wait for each other's commit hold one meanwhile.
		set := map[string]string{"default_pool_size": "3"}
		if mode == pgx.QueryExecModeCacheStatement {
			if bouncerVersion(t) < 21 {
				t.Skip("skipped: this pgbouncer is older than 1.21 and does not know prepared statements")
			}
			set["max_prepared_statements"] = "100"
		}
		b := newBouncer(t, s.URL, "transaction", set)
		pool := connectIn(t, b.through(s.URL), mode)
		procs := []*process{s.start(4), s.start(4)}
		want := make(map[string][]int64)
		orders := map[string]bool{"ids": false, "commits": true}
		for by, commitOrder := range orders {
			client := fifo.Open(pool, &fifo.Config{CommitOrder: commitOrder})
			produceAtOnce(t, client, pool, by, want)
			require.NoError(t, client.Close())
		}
		s.drained()
		s.stop(procs...)
		effects := s.effects()
		for by, commitOrder := range orders {
			shared := effects[by]
			if commitOrder {
				require.IsIncreasing(t, shared)
			}
			slices.Sort(shared)
			require.Len(t, slices.Compact(shared), manyProducers*producerRounds*4, "once each")
			delete(effects, by)
		}
		require.Equal(t, want, effects)
	})
}

const manyProducers, producerRounds = 8, 2

// produceAtOnce has each of many producers enqueue to a group of its own, whose ids it adds to those that are wanted,
// and all to the shared one.
func produceAtOnce(
	t *testing.T, client *fifo.Client, pool *pgxpool.Pool, shared string, want map[string][]int64,
) {
	t.Helper()
	var mu sync.Mutex
	var all errgroup.Group
	for n := range manyProducers {
		all.Go(func() error {
			group := fmt.Sprint(shared, n)
			ids, err := produceInAllWays(t.Context(), client, pool, group, shared, n == 0)
			mu.Lock()
			defer mu.Unlock()
			want[group] = ids
			return err
		})
	}
	require.NoError(t, all.Wait())
}

// produceInAllWays enqueues to a group of its own, in order, and to one that others share. If it lingers in a
// transaction, workers come to what the others commit meanwhile, unless they wait.
func produceInAllWays(
	ctx context.Context, client *fifo.Client, pool *pgxpool.Pool, group, common string, lingers bool,
) (all []int64, err error) {
	own, shared := message(group, task{}), message(common, task{})
	keep := func(receipts []fifo.Receipt, err error) error {
		ids, err := receipt.IDs(receipts, err)
		if err == nil && len(ids) == 3 {
			all = append(all, ids[0], ids[2])
		}
		if err == nil && len(ids) == 1 {
			all = append(all, ids...)
		}
		return err
	}
	for round := range producerRounds {
		if err := keep(client.Enqueue(ctx, own)); err != nil {
			return nil, fmt.Errorf("one: %w", err)
		}
		if _, err := client.Enqueue(ctx, shared); err != nil {
			return nil, fmt.Errorf("shared: %w", err)
		}
		if err := keep(client.Enqueue(ctx, own, shared, own)); err != nil {
			return nil, fmt.Errorf("several: %w", err)
		}
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			err := keep(client.EnqueuePgxTx(ctx, tx, own, shared, own))
			if err == nil && lingers && round == 0 {
				_, err = tx.Exec(ctx, "SELECT pg_sleep(0.6)")
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("pgx: %w", err)
		}
		tx, err := client.DB().BeginTx(ctx, nil)
		if err != nil {
			return nil, fmt.Errorf("bun: %w", err)
		}
		if err := keep(client.EnqueueTx(ctx, tx, own, shared, own)); err != nil {
			_ = tx.Rollback()
			return nil, fmt.Errorf("bun: %w", err)
		}
		if err := tx.Commit(); err != nil {
			return nil, fmt.Errorf("bun: %w", err)
		}
	}
	return all, nil
}

// Behind transaction mode, everything that is not a worker works: migrations, listings, pauses, dead letters.
func TestAdminBehindPoolerInTransactionMode(t *testing.T) {
	t.Parallel()
	url := pgtest.EmptyURL(t)
	b := newBouncer(t, url, "transaction", map[string]string{"default_pool_size": "4"})
	ctx := t.Context()
	errs := make(chan error, 4)
	for range 4 { // at once, as four replicas that start
		pool := connectIn(t, b.through(url), pgx.QueryExecModeExec)
		go func() { errs <- migrations.Up(ctx, pool, nil) }()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	s := newSiteAt(t, url)
	client := clientIn(t, b.through(url), pgx.QueryExecModeExec)
	done := make(chan int64, 10)
	s.work(&fifo.Worker{Client: s.client, Concurrency: 2}, func(_ context.Context, job *fifo.Job) error {
		if strings.HasPrefix(job.GroupID, "bad") {
			return fifo.DeadLetter(fmt.Errorf("as told"))
		}
		done <- job.ID
		return nil
	})
	ids, err := receipt.IDs(client.Enqueue(ctx, message("g", task{})))
	require.NoError(t, err)
	require.Equal(t, ids[0], receive(s.T, 3*patience, done, "the job"))

	group := client.Queue(queue).Group("paused")
	require.NoError(t, pausing(group.Pause(ctx, "why")))
	_, err = client.Enqueue(ctx, message("paused", task{}), message("bad", task{}))
	require.NoError(t, err)
	s.until("a dead letter", func() bool {
		dead, err := client.DeadLetters(ctx, fifo.Letters{})
		require.NoError(t, err)
		return len(dead) == 1
	})
	list, err := client.Groups(ctx, fifo.Page{}, fifo.Paused)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "why", list[0].PauseReason)
	n, err := group.Purge(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	resumed, err := group.Resume(ctx)
	require.NoError(t, err)
	require.True(t, resumed)
	n, err = client.Queue(queue).DeleteDeadLetters(ctx, fifo.Letters{All: true})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Zero(t, s.jobs())
}

// In statement mode there are no transactions: single enqueues work, everything else says why not.
func TestStatementMode(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, s.URL, "statement", nil)
	client := clientIn(t, b.through(s.URL), pgx.QueryExecModeExec)
	_, err := client.Enqueue(t.Context(), message("g", task{}), message("g", task{}))
	require.NoError(t, err)
	require.Equal(t, 2, s.jobs())
	err = client.InTx(t.Context(), func(pgx.Tx) error { return nil })
	require.ErrorContains(t, err, "transaction blocks not allowed in statement pooling mode")
}
