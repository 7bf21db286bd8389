package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// cut ends the connection of the job's batch.
func (b *bed) cut(ctx context.Context, job *fifo.Job) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	return b.kill(context.WithoutCancel(ctx), int(tx.Conn().PgConn().PID()))
}

// fill enqueues as many jobs as the batch takes: to one group, or one to each of several.
func (b *bed) fill(batch fifo.Queue) (ids []int64) {
	for range batch.BatchJobs {
		ids = append(ids, b.send("0", nil)...)
	}
	for g := range batch.BatchGroups {
		ids = append(ids, b.send(fmt.Sprint(g), nil)...)
	}
	return ids
}

// The job at the head of a group pays for a lost batch, whichever of its jobs ran; of many groups each head does.
// Nothing else is counted, and all is done once.
func TestLostBatch(t *testing.T) {
	pgtest.OverPairs(t, leases, ways, batches(5), func(t *testing.T, by lease, work way, batch fifo.Queue) {
		b := by.on(newList(t))
		b.ledger.overlaps, b.ledger.unordered = true, true
		ids := b.fill(batch)
		worked := 0
		w := work(b, batch, func(ctx context.Context, job *fifo.Job) error {
			if worked++; worked == 3 {
				return b.cut(ctx, job)
			}
			return note(ctx, job)
		})
		b.work(w)
		attempts := b.attempts(ids...)
		stats := w.Stats()
		require.EqualValues(t, 5, stats.Succeeded)
		require.Zero(t, stats.Buried+stats.Returned)
		if batch.BatchJobs > 1 {
			require.Equal(t, []int{2, 1, 1, 1, 1}, attempts)
			require.EqualValues(t, 1, stats.Lost)
			return
		}
		require.NotContains(t, attempts, 3)
		twice := 0
		for _, n := range attempts {
			twice += n - 1
		}
		require.EqualValues(t, twice, stats.Lost)
		require.GreaterOrEqual(t, twice, 3)
	})
}

// A job that ends every connection that runs it ends as a dead letter also among others, who are not drawn into it:
// each of them pays for one lost attempt at most.
func TestPoisonInABatch(t *testing.T) {
	pgtest.OverPairs(t, leases, ways, batches(8), func(t *testing.T, by lease, work way, batch fifo.Queue) {
		b := by.on(newList(t))
		b.ledger.overlaps, b.ledger.unordered = true, true
		ids := b.fill(batch)
		one := func(ctx context.Context, job *fifo.Job) error {
			if job.ID == ids[3] {
				return b.cut(ctx, job)
			}
			return note(ctx, job)
		}
		b.work(work(b, batch, one))
		for _, n := range b.attempts(slices.Concat(ids[:3], ids[4:])...) {
			require.LessOrEqual(t, n, 2)
		}
		letter := only(t, b.deadLetters())
		require.Equal(t, ids[3], letter.ID)
		require.Equal(t, 3, letter.Attempts)
		require.Len(t, letter.Failures, 3)
		for _, f := range letter.Failures {
			require.Equal(t, fifo.KindLost, f.Kind)
		}
	})
}

// The groups of a lost batch that had not been worked yet are not forgotten until the next poll.
func TestUnworkedGroupsOfALostBatch(t *testing.T) {
	pgtest.OverAll(t, map[string]func(b *bed) fifo.Handler{
		"killed":         func(b *bed) fifo.Handler { return b.cut },
		"ended":          func(*bed) fifo.Handler { return executing("ROLLBACK") },
		"rows left open": func(*bed) fifo.Handler { return leaveRows },
	}, func(t *testing.T, spoil func(b *bed) fifo.Handler) {
		b := newList(t)
		b.ledger.overlaps, b.ledger.unordered = true, true
		b.sendMany("q", 6, 1)
		var first, second atomic.Int64
		w := b.each(fifo.Queue{BatchGroups: 6}, func(ctx context.Context, job *fifo.Job) error {
			switch {
			// By itself if the lane was waiting, else with the others.
			case first.CompareAndSwap(0, job.ID), first.Load() == job.ID:
				return fifo.RetryAfter(time.Hour, errOnPurpose)
			case second.CompareAndSwap(0, job.ID):
				return spoil(b)(ctx, job)
			case second.Load() == job.ID:
				return fifo.RetryAfter(time.Hour, errOnPurpose)
			}
			return note(ctx, job)
		}, rarePolls)
		b.run(w)
		await(t, "the others", func() bool { return query[int](b, "SELECT count(*) FROM list") == 4 })
	})
}

// Two workers with batches, connections that die, handlers that fail, panic and spoil their transaction: groups keep
// their order, and every job is done once.
func TestBatchStress(t *testing.T) {
	pgtest.OverAll(t, map[string]way{
		"each": (*bed).each,
		"slice": func(b *bed, batch fifo.Queue, h fifo.Handler, adjust ...func(*fifo.Worker)) *fifo.Worker {
			return b.slice(batch, stopAndName(h), adjust...)
		},
	}, func(t *testing.T, work way) {
		pgtest.OverAll(t, batches(5), func(t *testing.T, batch fifo.Queue) {
			b := newList(t)
			b.ledger.overlaps, b.ledger.unordered = true, true
			var turn atomic.Int64
			one := func(ctx context.Context, job *fifo.Job) error {
				luck := turn.Add(1) % 41
				if err := note(ctx, job); err != nil {
					return err
				}
				switch luck {
				case 5:
					return errOnPurpose
				case 11:
					return fifo.BatchError{job.ID: fifo.RetryAfter(time.Millisecond, nil)}
				case 17:
					panic(errOnPurpose)
				case 23:
					return execAnyway(ctx, job, "SELECT 1/0")
				case 29:
					return execAnyway(ctx, job, "ROLLBACK")
				case 37:
					return b.cut(ctx, job)
				}
				return nil
			}
			for range 2 {
				b.run(work(b, batch, one, func(w *fifo.Worker) {
					w.Concurrency, w.MaxAttempts, w.Heartbeat = 3, 1000, 100*time.Millisecond
				}))
			}
			var ids []int64
			for range 16 {
				ids = append(ids, b.sendMany("q", 8, 1)...)
			}
			b.drained()
			b.attempts(ids...)
			require.Zero(t, b.count("dead_letters"))
		})
	})
}

// stopAndName is a BatchHandler that undoes what the first job that failed wrote, and names it.
func stopAndName(h fifo.Handler) batchHandler {
	return func(ctx context.Context, jobs []*fifo.Job) error {
		failed := fifo.BatchError{}
		stopped := map[string]bool{}
		for _, job := range jobs {
			if stopped[job.GroupID] {
				continue
			}
			err := h(ctx, job)
			if errors.Is(err, errOnPurpose) {
				tx, terr := job.PgxTx(ctx)
				if terr != nil {
					return terr
				}
				_, err = tx.Exec(ctx, "DELETE FROM list WHERE id = $1", job.ID)
				failed[job.ID], stopped[job.GroupID] = errOnPurpose, true
			}
			if err != nil {
				return errors.New("the batch: " + err.Error())
			}
		}
		return failed
	}
}
