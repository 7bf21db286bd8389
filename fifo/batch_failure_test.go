package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// attempts returns with which attempt each job of the list was done. Every one of the given jobs must be there once,
// and in the order of its group.
func (b *bed) attempts(ids ...int64) []int {
	b.t.Helper()
	require.Equal(b.t, ids, query[[]int64](b, "SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM list"),
		"each once")
	require.Zero(b.t, query[int](b, `SELECT count(*) FROM (
		SELECT id < lag(id) OVER (PARTITION BY group_id ORDER BY n) AS wrong FROM list) o WHERE wrong`), "in order")
	return query[[]int](b, "SELECT array_agg(attempt ORDER BY id) FROM list")
}

// oneAfterTheOther is a BatchHandler that stops at the first error.
func oneAfterTheOther(h fifo.Handler) batchHandler {
	return func(ctx context.Context, jobs []*fifo.Job) error {
		for _, job := range jobs {
			if err := h(ctx, job); err != nil {
				return err
			}
		}
		return nil
	}
}

// execAnyway runs a statement in the job's transaction, and hides its error.
func execAnyway(ctx context.Context, job *fifo.Job, sql string) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	_, _ = tx.Exec(ctx, sql)
	return nil
}

// culprits are ways to fail that undo a batch, or spoil its commit. The innocent write down what attempt they had.
var culprits = map[string]func(ctx context.Context, job *fifo.Job) error{
	"error": func(context.Context, *fifo.Job) error { return errOnPurpose },
	"panic": func(context.Context, *fifo.Job) error { panic(errOnPurpose) },
	"panic with a BatchError": func(_ context.Context, job *fifo.Job) error {
		panic(fifo.BatchError{job.ID: errOnPurpose})
	},
	"a BatchError beside another error": func(_ context.Context, job *fifo.Job) error {
		return errors.Join(fifo.BatchError{job.ID: errOnPurpose}, pgx.ErrTxCommitRollback)
	},
	"a BatchError of another batch": func(_ context.Context, job *fifo.Job) error {
		return fifo.BatchError{-1: errOnPurpose}
	},
	"timeout": func(ctx context.Context, _ *fifo.Job) error {
		<-ctx.Done()
		return ctx.Err()
	},
	"swallowed error":  executing("SELECT 1/0"),
	"ROLLBACK":         executing("ROLLBACK"),
	"ROLLBACK; BEGIN":  executing("ROLLBACK; BEGIN"),
	"COMMIT":           executing("COMMIT"),
	"COMMIT; BEGIN":    executing("COMMIT; BEGIN"),
	"COMMIT AND CHAIN": executing("COMMIT AND CHAIN"),
	"rows left open":   leaveRows,
	"deferred":         executing("INSERT INTO effects VALUES (1), (1)"),
}

// executing is a handler that only does that.
func executing(sql string) fifo.Handler {
	return func(ctx context.Context, job *fifo.Job) error { return execAnyway(ctx, job, sql) }
}

// Whatever one job of a batch does, the others are done once each, in order and without a counted attempt; it alone is
// tried again. What was written before a commit by hand is written again.
func TestCulpritInABatch(t *testing.T) {
	pgtest.OverPairs(t, leases, ways, batches(6), func(t *testing.T, by lease, work way, batch fifo.Queue) {
		b := by.on(newList(t))
		b.ledger.unordered = true
		b.exec("CREATE TABLE effects (attempt int, UNIQUE (attempt) DEFERRABLE INITIALLY DEFERRED)")
		odd := func(ctx context.Context, job *fifo.Job) error {
			err := note(ctx, job)
			if spoil := culprits[string(job.Payload)]; err == nil && spoil != nil && job.Attempt() == 1 {
				err = spoil(ctx, job)
			}
			return err
		}
		quick := func(w *fifo.Worker) { w.JobTimeout = time.Second }
		w := work(b, batch, odd, quick)
		r := b.run(w)
		for name := range culprits { // one after the other, so that each has its batch
			msgs := make([]fifo.Message, 6)
			for i := range msgs {
				msgs[i] = fifo.Message{Queue: "q", GroupID: name, Payload: ""}
				if batch.BatchGroups > 1 {
					msgs[i].GroupID += fmt.Sprint(i)
				}
			}
			msgs[3].Payload = name
			ids := b.sendAll(msgs...)
			b.drained()
			if strings.HasPrefix(name, "COMMIT") { // what was written before it stays
				b.exec("DELETE FROM list WHERE n NOT IN (SELECT max(n) FROM list GROUP BY id)")
			}
			require.Equal(t, []int{1, 1, 1, 2, 1, 1}, b.attempts(ids...), name)
			b.exec("DELETE FROM list")
		}
		require.NoError(t, r.stop()) // what is committed is counted by then
		n := int64(len(culprits))
		stats := w.Stats()
		require.Equal(t, 6*n, stats.Succeeded)
		require.Zero(t, stats.Unknown+stats.Lost+stats.Buried)
		require.Equal(t, n, stats.Retried)
	})
}

func TestFailedJobOfABatchIsDeleted(t *testing.T) {
	pgtest.OverEach(t, []string{"each", "slice"}, func(t *testing.T, kind string) {
		b := newList(t)
		failures := map[string]error{"retried": errOnPurpose, "buried": fifo.DeadLetter(errOnPurpose)}
		one := func(ctx context.Context, job *fifo.Job) error {
			if string(job.Payload) != "fails" {
				return note(ctx, job)
			}
			b.exec("DELETE FROM pgfifo.jobs WHERE id = $1", job.ID)
			return failures[job.GroupID]
		}
		w := b.each(fifo.Queue{BatchJobs: 3}, one)
		if kind == "slice" {
			w = b.slice(fifo.Queue{BatchJobs: 3}, func(ctx context.Context, jobs []*fifo.Job) error {
				for _, job := range jobs {
					if err := one(ctx, job); err != nil {
						return fifo.BatchError{job.ID: err}
					}
				}
				return nil
			})
		}
		b.ledger.unordered = true // the first one runs again
		var left []int64
		for group := range failures {
			ids := b.send(group, "", "fails", "")
			left = append(left, ids[0], ids[2])
		}
		b.ledger.sent = left
		b.work(w)
		require.Equal(t, []int{1, 1, 1, 1}, b.attempts(left...))
		require.EqualValues(t, 4, w.Stats().Succeeded)
		require.Zero(t, w.Stats().Retried+w.Stats().Buried)
		require.Zero(t, b.count("dead_letters"))
	})
}

func TestOperatorInABatch(t *testing.T) {
	all := []int{0, 1, 2, 3, 4}
	rows := map[string]struct {
		do   string
		left []int
	}{
		"delete":   {"DELETE FROM pgfifo.jobs WHERE id = $1", []int{0, 1, 3, 4}},
		"update":   {"UPDATE pgfifo.jobs SET payload = 'changed' WHERE id = $1", all},
		"attempts": {"UPDATE pgfifo.jobs SET attempts = attempts + 1 WHERE id = $1", all},
		"away":     {"UPDATE pgfifo.jobs SET group_id = 'other' WHERE id = $1", all},
		"purge":    {"", []int{0}},
	}
	pgtest.OverAll(t, ways, func(t *testing.T, work way) {
		b := newList(t)
		b.ledger.unordered = true
		var done atomic.Bool
		w := work(b, fifo.Queue{BatchJobs: 5}, func(ctx context.Context, job *fifo.Job) error {
			if string(job.Payload) != "meddles" || done.Swap(true) {
				return note(ctx, job)
			}
			var err error
			if do := rows[job.GroupID].do; do == "" {
				_, err = b.q.Purge(ctx)
			} else {
				_, err = b.pool.Exec(ctx, do, job.ID-1)
			}
			return errors.Join(err, note(ctx, job))
		})
		r := b.run(w)
		succeeded := 0
		for name, x := range rows {
			done.Store(false)
			ids := b.send(name, "", "", "", "meddles", "")
			var want []int64
			for _, i := range x.left {
				want = append(want, ids[i])
			}
			b.ledger.sent = want
			succeeded += len(want)
			b.drained()
			await(t, "their ends", func() bool { return w.Stats().Succeeded == int64(succeeded) })
			b.attempts(want...)
			require.Zero(t, w.Stats().Retried+w.Stats().Buried+w.Stats().Unknown, "%s: nobody is to blame", name)
			b.exec("DELETE FROM list")
		}
		require.NoError(t, r.stop())
	})
}

func TestBatchThatIsRefused(t *testing.T) {
	spoils := map[string]string{
		"deferred": "INSERT INTO effects VALUES (-1)",
		"cursor":   "DECLARE held CURSOR WITH HOLD FOR SELECT 1 / attempt FROM generate_series(0, 1) attempt",
	}
	pgtest.OverAll(t, ways, func(t *testing.T, work way) {
		b := newEffects(t)
		b.exec("INSERT INTO effects VALUES (-1)")
		one := func(ctx context.Context, job *fifo.Job) error {
			if job.GroupID == "bad" {
				return execAnyway(ctx, job, string(job.Payload))
			}
			return write(ctx, job, int(job.ID))
		}
		workers := 3 // they begin when the first jobs are there
		for name, spoil := range spoils {
			b.send("bad", spoil)
			b.sendMany("q", 40, 1)
			for ; workers > 0; workers-- {
				b.run(work(b, fifo.Queue{BatchGroups: 50}, one, oneLane))
			}
			b.drained()
			require.NotContains(t, read(b.ledger, &b.ledger.starts, func(job *fifo.Job) bool {
				return job.GroupID != "bad" && job.Attempts > 0
			}), true, name)
		}
	})
}

// If the transaction is lost behind a job that failed, what was written before it is lost, too: those jobs are not
// done.
func TestBatchThatIsLostBehindAFailure(t *testing.T) {
	b := newList(t)
	b.ledger.unordered = true
	ids := b.send("g", nil, nil, nil)
	w := b.each(fifo.Queue{BatchJobs: 3}, func(ctx context.Context, job *fifo.Job) error {
		if err := note(ctx, job); err != nil || job.ID != ids[1] || job.Attempt() > 1 {
			return err
		}
		// The lane's own statement is gone behind its back, and the lane is used once more only.
		return errors.Join(exec(ctx, job, "DO $$ BEGIN EXECUTE 'DEALLOCATE pgfifo_restore'; END $$"),
			exec(ctx, job, "SELECT set_config('client_encoding', 'LATIN1', true)"), errOnPurpose)
	})
	b.work(w)
	b.attempts(ids...)
	require.EqualValues(t, 3, w.Stats().Succeeded)
	require.Zero(t, w.Stats().Lost+w.Stats().Unknown+w.Stats().Buried)
}

// If the connection is, the next job of a batch does not begin: its group is free, and may be another worker's.
func TestBatchWhoseConnectionIsLostBehindAFailure(t *testing.T) {
	overLeases(t, testBatchWhoseConnectionIsLostBehindAFailure)
}

func testBatchWhoseConnectionIsLostBehindAFailure(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	b.ledger.unordered, b.ledger.overlaps = true, true
	b.sendMany("q", 3, 1)
	var first, began atomic.Bool
	cut := &netfault.Cut{Before: "pgfifo_restore"}
	pool := b.pooled(func(cfg *pgxpool.Config) {
		dial := cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			return cut.Conn(conn), err
		}
	})
	b.work(b.each(fifo.Queue{BatchGroups: 3}, func(ctx context.Context, job *fifo.Job) error {
		switch {
		case first.CompareAndSwap(false, true): // by itself if the lane was waiting, else with the others
		case cut.Armed.CompareAndSwap(false, true):
			return errors.Join(exec(ctx, job, "INSERT INTO effects VALUES (1)"), errOnPurpose)
		case exec(ctx, job, "SELECT 1") != nil && ctx.Err() == nil:
			began.Store(true)
		}
		return nil
	}, oneLane, func(w *fifo.Worker) { w.Client = b.open(pool) }))
	require.True(t, cut.Made.Load())
	require.False(t, began.Load())
}

// Who locks a whole table, to index it say, is waited for when jobs of a batch are settled, as when one is.
func TestBatchWaitsForALockOnATable(t *testing.T) { overLeases(t, testBatchWaitsForALockOnATable) }

func testBatchWaitsForALockOnATable(t *testing.T, by lease) {
	type row struct {
		batch fifo.Queue
		msg   fifo.Message
	}
	rows := map[string]row{
		"fences": {fifo.Queue{BatchGroups: 5}, fifo.Message{Queue: "q", Ungrouped: true}},
		"jobs":   {fifo.Queue{BatchJobs: 5}, fifo.Message{Queue: "q", GroupID: "g"}},
	}
	if by != bySession { // which takes marks back in another transaction
		rows["attempt_marks"] = rows["jobs"]
	}
	pgtest.OverNamed(t, rows, func(t *testing.T, table string, kind row) {
		b := by.on(newBed(t))
		b.sendAll(slices.Repeat([]fifo.Message{kind.msg}, 40)...)
		runs, many, locked := 0, make(chan struct{}, 40), make(chan struct{})
		r := b.run(b.slice(kind.batch, func(_ context.Context, jobs []*fifo.Job) error {
			runs += len(jobs)
			if len(jobs) > 1 {
				many <- struct{}{}
				<-locked
			}
			return nil
		}))
		receive(t, many, "a batch")
		lock := b.beginWith("LOCK TABLE pgfifo." + table + " IN SHARE MODE")
		close(locked)
		await(t, "the settling to wait for long", func() bool {
			return query[bool](b, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "+
				"AND datname = current_database() AND query_start < clock_timestamp() - interval '1.5 s')")
		})
		require.NoError(t, lock.Rollback(t.Context()))
		r.finish()
		require.Equal(t, 40, runs)
	})
}

// A job behind the head of a batch loses the transaction, while somebody keeps its row open. Its attempt is counted,
// late, and none of the head's.
func TestLostBehindTheHeadAndKeptOpen(t *testing.T) { overLeases(t, testLostBehindTheHeadAndKeptOpen) }

func testLostBehindTheHeadAndKeptOpen(t *testing.T, by lease) {
	pgtest.OverEach(t, []string{"COMMIT", "ROLLBACK"}, func(t *testing.T, end string) {
		b := by.on(newBed(t))
		b.ledger.overlaps, b.ledger.unordered = true, true // the head runs again
		ids := b.send("g", "head", "behind")
		var keeps pgx.Tx
		w := b.each(fifo.Queue{BatchJobs: 2}, func(ctx context.Context, job *fifo.Job) error {
			if job.ID == ids[0] || keeps != nil {
				return nil
			}
			keeps = b.beginWith("SELECT FROM pgfifo.jobs WHERE id = $1 FOR UPDATE", job.ID)
			return exec(ctx, job, end)
		}, oneLane, func(w *fifo.Worker) { w.Silence, w.Retry = 2*time.Second, waiting(0) })
		r := b.run(w)
		await(t, "an attempt that is not recorded", func() bool {
			return len(b.log.lines("failed attempt not recorded")) > 0
		})
		require.NoError(t, keeps.Rollback(t.Context()))
		r.finish()
		require.Equal(t, []int{0, 0, 0, 1}, b.counted())
		require.EqualValues(t, 1, w.Stats().Lost)
	})
}
