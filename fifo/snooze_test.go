package fifo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A job that is snoozed keeps its place and its attempts, however often; its group waits, and what it wrote is undone.
func TestSnooze(t *testing.T) { overLeases(t, testSnooze) }

func testSnooze(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.exec("CREATE TABLE effects (v integer)")
	ids := b.sendAll(
		fifo.Message{Queue: "q", GroupID: "g", Payload: "head", MaxAttempts: 1},
		fifo.Message{Queue: "q", GroupID: "g", Payload: "next"},
	)
	times := 0
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if err := exec(ctx, job, "INSERT INTO effects VALUES ($1)", job.Attempt()); err != nil {
			return err
		}
		if times++; string(job.Payload) == "head" && times <= 3 {
			return fmt.Errorf("wrapped: %w", fifo.Snooze(0, errOnPurpose))
		}
		return nil
	}, oneLane)
	b.work(w)
	require.Equal(t, []int64{ids[0], ids[0], ids[0], ids[0], ids[1]}, b.ledger.order())
	require.Equal(t, []fifo.Outcome{fifo.Snoozed, fifo.Snoozed, fifo.Snoozed, fifo.Succeeded, fifo.Succeeded},
		b.ledger.outcomes())
	require.Equal(t, "snoozed", fifo.Snoozed.String())
	require.ErrorIs(t, b.ledger.errs()[0], errOnPurpose)
	require.Equal(t, 2, query[int](b, "SELECT sum(v) FROM effects"), "both in their first attempt, and once")
	require.Empty(t, b.deadLetters())
	stats := w.Stats()
	require.EqualValues(t, 3, stats.Snoozed)
	require.Zero(t, stats.Retried+stats.Buried+stats.Returned+stats.Unknown)
}

// In a batch of one group, what is before it is done, and what is behind it is given back. So it is where something is
// unavailable.
func TestSnoozeInABatch(t *testing.T) { overLeases(t, testSnoozeInABatch) }

func testSnoozeInABatch(t *testing.T, by lease) {
	t.Parallel()
	batch := fifo.Queue{BatchJobs: 3}
	type once = func(err error) error // the first time, else nil
	slice := func(fail func(jobs []*fifo.Job, first once) error) func(b *bed, first once) *fifo.Worker {
		return func(b *bed, first once) *fifo.Worker {
			return b.slice(batch, func(_ context.Context, jobs []*fifo.Job) error { return fail(jobs, first) })
		}
	}
	for kind, later := range map[string]func(error) error{
		"snooze": func(err error) error { return fifo.Snooze(0, err) }, "unavailable": fifo.Unavailable,
	} {
		for name, x := range map[string]struct {
			worker         func(b *bed, first once) *fifo.Worker
			returned, done int64
		}{
			"handler": {func(b *bed, first once) *fifo.Worker { // which is not called for the one behind
				return b.each(batch, func(_ context.Context, job *fifo.Job) error {
					if string(job.Payload) != "2" {
						return nil
					}
					return first(later(errOnPurpose))
				})
			}, 0, 1},
			"batch error": {slice(func(jobs []*fifo.Job, first once) error {
				return first(fifo.BatchError{jobs[min(1, len(jobs)-1)].ID: later(errOnPurpose)})
			}), 1, 1},
			"around a batch error": {slice(func(jobs []*fifo.Job, first once) error {
				return first(later(fifo.BatchError{jobs[min(1, len(jobs)-1)].ID: errOnPurpose}))
			}), 1, 1},
			"the batch": {slice(func(_ []*fifo.Job, first once) error { return first(later(nil)) }), 2, 0},
		} {
			if kind == "snooze" && name == "the batch" {
				continue // there is no such thing
			}
			t.Run(kind+", "+name, func(t *testing.T) {
				b := by.on(newBed(t))
				b.send("g", "1", "2", "3")
				var called atomic.Bool
				w := x.worker(b, func(err error) error {
					if called.Swap(true) {
						return nil
					}
					return err
				})
				b.work(w)
				stats := w.Stats()
				require.EqualValues(t, 1, stats.Snoozed)
				require.Equal(t, x.returned, stats.Returned)
				require.EqualValues(t, 3, stats.Succeeded)
				require.Zero(t, stats.Retried+stats.Buried+stats.Unknown)
				require.Equal(t, x.done > 0, b.ledger.outcomes()[0] == fifo.Succeeded)
			})
		}
	}
}

func TestAsSnooze(t *testing.T) {
	t.Parallel()
	d, ok := fifo.AsSnooze(fmt.Errorf("x: %w", fifo.Snooze(time.Minute, errOnPurpose)))
	require.True(t, ok)
	require.Equal(t, time.Minute, d)
	_, ok = fifo.AsSnooze(fifo.RetryAfter(time.Minute, nil))
	require.False(t, ok)
}
