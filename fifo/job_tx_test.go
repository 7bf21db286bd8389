package fifo_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

func TestNoJob(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	listed := b.jobs()[0]
	b.work(b.worker(nop))
	for _, job := range []*fifo.Job{{}, &listed, b.ledger.starts[0], b.ledger.settled[0].job} {
		require.ErrorIs(t, second(job.Tx(t.Context())), fifo.ErrNoJob)
		require.ErrorIs(t, second(job.SQLTx(t.Context())), fifo.ErrNoJob)
		require.ErrorIs(t, second(job.PgxTx(t.Context())), fifo.ErrNoJob)
		require.ErrorIs(t, second(job.Fence(t.Context())), fifo.ErrNoJob)
	}
}

// An sqlTx is what transactions of bun and of database/sql have in common.
type sqlTx interface {
	fifo.Tx
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// sqlTxOf returns the job's transaction of the one of the two that its group is called.
func sqlTxOf(ctx context.Context, job *fifo.Job) (sqlTx, error) {
	if job.GroupID == "bun" {
		return job.Tx(ctx)
	}
	return job.SQLTx(ctx)
}

// A transaction that a handler kept is of no use once it has returned: neither while the same connection holds the next
// job, whose transaction it would write to, nor while it is idle.
func TestTxAfterTheJob(t *testing.T) { overLeases(t, testTxAfterTheJob) }

func testTxAfterTheJob(t *testing.T, by lease) {
	const insert = "INSERT INTO effects VALUES (1)"
	b := by.on(newEffects(t))
	var kept func(ctx context.Context) error
	var during error
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		switch {
		case string(job.Payload) == "uses":
			during = kept(ctx)
		case job.GroupID == "pgx":
			tx, err := job.PgxTx(ctx)
			kept = func(ctx context.Context) error { return second(tx.Exec(ctx, insert)) }
			return err
		default:
			tx, err := sqlTxOf(ctx, job)
			kept = func(ctx context.Context) error {
				return errors.Join(second(tx.ExecContext(ctx, insert)), tx.Commit())
			}
			return err
		}
		return nil
	}, oneLane))
	for _, kind := range []string{"bun", "pgx", "sql"} {
		b.send(kind, "keeps", "uses")
		require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Succeeded}, b.ends(kind, 2), kind)
		require.Error(t, during, "%s, while the next job ran", kind)
		require.Error(t, kept(t.Context()), "%s, while the lane was idle", kind)
	}
	require.Empty(t, b.effects())
}

// What a handler enqueues in its job's transaction is there if the job succeeded.
func TestEnqueueInJob(t *testing.T) { overLeases(t, testEnqueueInJob) }

func testEnqueueInJob(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.send("bun", "parent")
	b.send("pgx", "parent")
	b.send("sql", "parent")
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) != "parent" {
			return nil
		}
		child := fifo.Message{Queue: "q", GroupID: job.GroupID, Payload: fmt.Sprint("child of attempt ", job.Attempt())}
		if err := b.enqueueIn(ctx, job, child); err != nil {
			return err
		}
		return failing(1, errOnPurpose)(ctx, job)
	}, rarePolls))
	b.drained()
	await(t, "the children", func() bool { return len(b.ledger.order()) == 9 })
	var children []string
	for _, p := range b.ledger.payloads() {
		if strings.HasPrefix(p, "child") {
			children = append(children, p)
		}
	}
	require.Equal(t, []string{"child of attempt 2", "child of attempt 2", "child of attempt 2"}, children)
}

// enqueueIn enqueues in the job's transaction, with pgx unless its group is called otherwise.
func (b *bed) enqueueIn(ctx context.Context, job *fifo.Job, m fifo.Message) error {
	if job.GroupID == "bun" || job.GroupID == "sql" {
		tx, err := sqlTxOf(ctx, job)
		if err == nil {
			_, err = b.client.EnqueueTx(ctx, tx, m)
		}
		return err
	}
	tx, err := job.PgxTx(ctx)
	if err == nil {
		_, err = b.client.EnqueuePgxTx(ctx, tx, m)
	}
	return err
}

// The transaction is READ COMMITTED and writable, whatever the database's default is, and the session's planner
// settings are the database's, not those that the library makes for its own statements.
func TestTxSettings(t *testing.T) {
	b := newBed(t)
	b.send("g", nil, nil)
	b.isolate("serializable")
	b.set("default_transaction_read_only = on")
	settings := []string{
		"transaction_isolation", "transaction_read_only", "enable_seqscan", "enable_bitmapscan", "enable_sort",
		"enable_hashjoin", "enable_mergejoin", "plan_cache_mode",
	}
	var got [][]string
	b.work(b.worker(withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
		var list []string
		err := tx.QueryRow(ctx, "SELECT array_agg(current_setting(s)) FROM unnest($1::text[]) s", settings).Scan(&list)
		got = append(got, list)
		return err
	}), oneLane))
	want := []string{"read committed", "off", "on", "on", "on", "on", "on", "auto"}
	require.Equal(t, [][]string{want, want}, got)
}

// A handler that does not ask for the transaction pays for no savepoint: the last thing that its session was told is
// the claim. A lane's first attempts are marked, and behind a mark that takes long the lane looks for a pause.
func TestSavepointIsLazy(t *testing.T) {
	b := newBed(t)
	b.send("g", slices.Repeat([]any{"first"}, tuning.Many)...)
	b.send("g", "asks not", "asks", "asks not")
	last := make(map[string]string)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "asks" {
			if _, err := job.Tx(ctx); err != nil {
				return err
			}
		}
		last[string(job.Payload)] = query[string](b, "SELECT query FROM pg_stat_activity WHERE pid = $1", b.holder("g"))
		return nil
	}, oneLane))
	require.Contains(t, last["asks"], "SAVEPOINT")
	require.NotContains(t, last["asks not"], "SAVEPOINT")
	require.Contains(t, last["asks not"], "Claims the head of the group")
}

// A goroutine that a handler has left behind may ask at any moment.
func TestTxAskedForByALeftGoroutine(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	answer := make(chan error, 1)
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		returned := make(chan struct{})
		defer close(returned)
		go func() {
			<-returned
			for {
				if _, err := job.PgxTx(context.Background()); err != nil {
					answer <- err
					return
				}
			}
		}()
		return nil
	}))
	require.ErrorIs(t, receive(t, answer, "the answer"), fifo.ErrNoJob)
}
