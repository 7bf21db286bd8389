package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A naiveQueue is the algorithm that pgfifo began with, in two transactions for each job: one picks a job and marks it
// started, the other waits for the locks of the job and its group, runs the job, and marks what became of it. Finished
// jobs stay in the table. A job of number n is in group n modulo the number of groups.
type naiveQueue struct {
	db     *database
	groups int
	lanes  int
	filled int64

	ledger []naiveAccount
	broken atomic.Int64
}

// A naiveAccount is what is known of one group. Numbers may be left out, by drain, but never go back.
type naiveAccount struct {
	busy atomic.Bool
	last atomic.Int64 // number plus one
}

func newNaive(db *database, groups, lanes int) *naiveQueue {
	return &naiveQueue{db: db, groups: groups, lanes: lanes, ledger: make([]naiveAccount, groups)}
}

func (*naiveQueue) name() string { return "naive" }

//go:embed naive.sql
var naiveTables string

const (
	naivePick = `UPDATE naive.jobs SET status = 'started', attempts = attempts + 1, last_started_at = now()
		WHERE id IN (
			SELECT j.id FROM naive.jobs AS j JOIN naive.queue_groups AS g USING (queue, group_id)
			WHERE j.id IN (
				SELECT DISTINCT ON (queue, group_id) id FROM naive.jobs
				WHERE queue = $1 AND status IN ('queued', 'started')
				ORDER BY queue, group_id, id)
			  AND (j.status = 'queued' OR j.status = 'started' AND j.last_started_at < now() - interval '2 s')
			LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING id`

	naiveLock = `SELECT j.number, j.status FROM naive.jobs AS j JOIN naive.queue_groups AS g USING (queue, group_id)
		WHERE j.id = $1 FOR UPDATE`

	naiveSettle = "UPDATE naive.jobs SET status = 'succeeded' WHERE id = $1"
)

func (q *naiveQueue) prepare(ctx context.Context) error {
	return q.db.exec(ctx, "DROP SCHEMA IF EXISTS naive CASCADE", naiveTables)
}

func (q *naiveQueue) fill(ctx context.Context, n int) error {
	from := q.filled
	q.filled += int64(n)
	if err := q.db.makeGroups(ctx, "naive", q.groups); err != nil {
		return err
	}
	_, err := q.db.pool.Exec(ctx, "INSERT INTO naive.jobs (queue, group_id, number) SELECT $1, "+
		fmt.Sprintf(groupSQL, "n % $2::bigint")+", n FROM generate_series($3::bigint, $4::bigint - 1) AS n",
		queue, int64(q.groups), from, q.filled)
	if err != nil {
		return err
	}
	return q.db.exec(ctx, "ANALYZE naive.jobs", "ANALYZE naive.queue_groups")
}

func (q *naiveQueue) run(ctx context.Context, handle func(int64), meanwhile func(context.Context) error) error {
	pool, err := q.db.openPool(ctx, 0, q.lanes)
	if err != nil {
		return err
	}
	defer pool.Close()
	return beside(ctx, meanwhile, func(over context.Context) error {
		lanes, over := errgroup.WithContext(over)
		for range q.lanes {
			lanes.Go(func() error { return q.lane(over, pool, handle) })
		}
		return lanes.Wait()
	})
}

// lane works one job after the other. It finishes what it began.
func (q *naiveQueue) lane(over context.Context, pool *pgxpool.Pool, handle func(int64)) error {
	for {
		var id int64
		err := pool.QueryRow(over, naivePick, queue).Scan(&id)
		switch {
		case over.Err() != nil: // and the statement was cancelled with it
			return nil
		case errors.Is(err, pgx.ErrNoRows):
			err = nil
			_ = pause.For(over, 5*time.Millisecond)
		case err == nil:
			err = q.work(context.WithoutCancel(over), pool, id, handle)
		}
		if err != nil {
			return err
		}
	}
}

func (q *naiveQueue) work(ctx context.Context, pool *pgxpool.Pool, id int64, handle func(int64)) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		var number int64
		var status string
		if err := tx.QueryRow(ctx, naiveLock, id).Scan(&number, &status); err != nil || status != "started" {
			return err // another finished it
		}
		end := q.begin(number)
		handle(number)
		end()
		_, err := tx.Exec(ctx, naiveSettle, id)
		return err
	})
}

// begin enters the start of a job, right or wrong. The entry is to be ended by the returned function.
func (q *naiveQueue) begin(number int64) func() {
	a := &q.ledger[number%int64(q.groups)]
	beside := !a.busy.CompareAndSwap(false, true)
	if before := a.last.Swap(number + 1); beside || before > number {
		q.broken.Add(1)
	}
	return func() { a.busy.Store(false) }
}

// drain works each drain's jobs alone, with what is left of the one before taken away, and for so long at most.
func (q *naiveQueue) drain(limit time.Duration) workFunc {
	work := drainRival(q.db, q, limit)
	return func(ctx context.Context, n int) (time.Duration, error) {
		if err := q.db.exec(ctx, "TRUNCATE naive.jobs"); err != nil {
			return 0, err
		}
		return work(ctx, n)
	}
}

// tell tells of jobs that began before an earlier one of their group, for the second time, or beside another.
func (q *naiveQueue) tell(r *Result, _ rounds) { r.more("out_of_turn", float64(q.broken.Load())) }
