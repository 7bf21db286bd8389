package fifo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A job that is put off keeps its place and its attempts, however often; its group waits, and what it wrote is undone.
// Where something is unavailable it waits as the policy says, to which each time is one more attempt.
func TestPutOff(t *testing.T) { overLeases(t, testPutOff) }

func testPutOff(t *testing.T, by lease) {
	type row struct {
		says error
		asks []int // the policy, of these attempts
	}
	pgtest.OverAll(t, map[string]row{
		"snooze":      {fifo.Snooze(0, errOnPurpose), nil},
		"unavailable": {fifo.Unavailable(errOnPurpose), []int{1, 2, 3, 1}},
	}, func(t *testing.T, x row) {
		b := by.on(newBed(t))
		b.exec("CREATE TABLE effects (v integer)")
		head := fifo.Message{Queue: "q", GroupID: "g", MaxAttempts: 1}
		ids := b.sendAll(head, head)
		times := 0
		var asked []int
		w := b.worker(func(ctx context.Context, job *fifo.Job) error {
			if err := exec(ctx, job, "INSERT INTO effects VALUES ($1)", job.Attempt()); err != nil {
				return err
			}
			if times++; times != 4 && times != 6 {
				return fmt.Errorf("wrapped: %w", x.says)
			}
			return nil
		}, oneLane, func(w *fifo.Worker) {
			w.Retry = func(job *fifo.Job, err error) time.Duration {
				if !fifo.IsUnavailable(err) || job.MaxAttempts != 1 {
					return time.Hour
				}
				asked = append(asked, job.Attempt())
				return 0
			}
		})
		b.work(w)
		require.Equal(t, []int64{ids[0], ids[0], ids[0], ids[0], ids[1], ids[1]}, b.ledger.order())
		require.Equal(t, []fifo.Outcome{
			fifo.Snoozed, fifo.Snoozed, fifo.Snoozed, fifo.Succeeded, fifo.Snoozed, fifo.Succeeded,
		}, b.ledger.outcomes())
		require.Equal(t, x.asks, asked)
		require.ErrorIs(t, b.ledger.errs()[0], errOnPurpose)
		require.Equal(t, 2, query[int](b, "SELECT sum(v) FROM effects"), "both in their first attempt, and once")
		require.Empty(t, b.deadLetters())
		stats := w.Stats()
		require.EqualValues(t, 4, stats.Snoozed)
		require.Zero(t, stats.Retried+stats.Buried+stats.Returned+stats.Unknown)
	})
}

// In a batch of one group, what is before it is done, and what is behind it is given back. So it is where something is
// unavailable.
func TestSnoozeInABatch(t *testing.T) { overLeases(t, testSnoozeInABatch) }

func testSnoozeInABatch(t *testing.T, by lease) {
	ways := map[string]struct {
		each           func(job *fifo.Job, later func(error) error) error
		slice          func(jobs []*fifo.Job, later func(error) error) error
		returned, done int64
	}{
		"handler": {each: func(job *fifo.Job, later func(error) error) error { // not called for the one behind
			if string(job.Payload) != "2" {
				return nil
			}
			return later(errOnPurpose)
		}, done: 1},
		"batch error": {slice: func(jobs []*fifo.Job, later func(error) error) error {
			return fifo.BatchError{jobs[min(1, len(jobs)-1)].ID: later(errOnPurpose)}
		}, returned: 1, done: 1},
		"around a batch error": {slice: func(jobs []*fifo.Job, later func(error) error) error {
			return later(fifo.BatchError{jobs[min(1, len(jobs)-1)].ID: errOnPurpose})
		}, returned: 1, done: 1},
		"the batch": {slice: func(_ []*fifo.Job, later func(error) error) error { return later(nil) }, returned: 2},
	}
	b := newBed(t)
	w := b.bare(nil)
	want, wantDone := fifo.Stats{}, make(map[string]bool)
	for kind, later := range map[string]func(error) error{
		"snooze": func(err error) error { return fifo.Snooze(0, err) }, "unavailable": fifo.Unavailable,
	} {
		for name, x := range ways {
			if kind == "snooze" && name == "the batch" {
				continue // there is no such thing
			}
			var called atomic.Bool
			first := func(err error) error {
				if err != nil && called.Swap(true) {
					return nil
				}
				return err
			}
			queue := fifo.Queue{BatchJobs: 3}
			if x.each != nil {
				queue.Handler = func(_ context.Context, job *fifo.Job) error { return first(x.each(job, later)) }
			} else {
				queue.BatchHandler = func(_ context.Context, jobs []*fifo.Job) error {
					return first(x.slice(jobs, later))
				}
			}
			name := kind + ", " + name
			by.on(b, name)
			w.HandleQueue(name, queue)
			for _, payload := range []string{"1", "2", "3"} {
				b.sendAll(fifo.Message{Queue: name, GroupID: name, Payload: payload})
			}
			want.Snoozed, want.Returned, want.Succeeded = want.Snoozed+1, want.Returned+x.returned, want.Succeeded+3
			wantDone[name] = x.done > 0
		}
	}
	b.work(w)
	got := w.Stats()
	want.Claims, want.Missed = got.Claims, got.Missed
	require.Equal(t, want, got)
	for name, done := range wantDone {
		outcomes, _, _ := b.ledger.of(name)
		require.Equal(t, done, outcomes[0] == fifo.Succeeded, name)
	}
}
