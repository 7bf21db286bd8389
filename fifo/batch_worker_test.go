package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestInvalidBatch(t *testing.T) {
	t.Parallel()
	slice := func(context.Context, []*fifo.Job) error { return nil }
	for _, bad := range []fifo.Queue{
		{BatchJobs: -1},
		{BatchGroups: -1},
		{BatchJobs: 2, BatchGroups: 2},
		{BatchJobs: fifo.MaxBatch + 1},
		{BatchGroups: fifo.MaxBatch + 1},
		{BatchJobs: 2, BatchGroups: -1},
	} {
		w := &fifo.Worker{}
		const says = "fifo: queue q: invalid batch: %d jobs, %d groups"
		invalid := fmt.Sprintf(says, bad.BatchJobs, bad.BatchGroups)
		bad.Handler = nop
		require.PanicsWithValue(t, invalid, func() { w.HandleQueue("q", bad) })
		bad.Handler, bad.BatchHandler = nil, slice
		require.PanicsWithValue(t, invalid, func() { w.HandleQueue("q", bad) })
		require.NotPanics(t, func() {
			w.HandleQueue("q", fifo.Queue{BatchJobs: 1, BatchGroups: 1, Handler: nop})
		}, "nothing was kept of it")
		require.Panics(t, func() { w.HandleQueue("q", fifo.Queue{BatchHandler: slice}) }, "it has a handler")
	}
	w := &fifo.Worker{}
	require.Panics(t, func() { w.HandleQueue("q\n", fifo.Queue{BatchHandler: slice}) })
}

func TestBatchErrorTells(t *testing.T) {
	t.Parallel()
	e := fifo.BatchError{7: errOnPurpose, 3: nil, 12: errors.New("other")}
	require.EqualError(t, e, "fifo: 3 of the batch failed; job 3: <nil>; job 7: on purpose; job 12: other")
	require.ErrorIs(t, e, errOnPurpose)
	require.NotErrorIs(t, fifo.BatchError{3: nil}, errOnPurpose)
}

// What a BatchError says of a job is what a Handler's error says.
func TestBatchErrors(t *testing.T) {
	const nilPointer = "fifo: method of an error panicked: *fifo_test.oddError: " +
		"runtime error: invalid memory address or nil pointer dereference"
	cases := map[string]struct {
		err  func(jobs []*fifo.Job) error
		done int          // of four
		ends fifo.Outcome // of the next one
		text string
	}{
		"nil":       {func([]*fifo.Job) error { return nil }, 4, fifo.Succeeded, ""},
		"empty":     {func([]*fifo.Job) error { return fifo.BatchError{} }, 4, fifo.Succeeded, ""},
		"typed nil": {func([]*fifo.Job) error { return fifo.BatchError(nil) }, 4, fifo.Succeeded, ""},
		"empty, wrapped": {func([]*fifo.Job) error {
			return fmt.Errorf("x: %w", fifo.DeadLetter(fifo.BatchError{}))
		}, 4, fifo.Succeeded, ""},
		"dead letter": {func(jobs []*fifo.Job) error {
			return fifo.BatchError{jobs[1].ID: fmt.Errorf("x: %w", fifo.DeadLetter(errOnPurpose))}
		}, 1, fifo.Buried, "x: on purpose"},
		"dead letter, around": {func(jobs []*fifo.Job) error {
			return fifo.DeadLetter(fmt.Errorf("x: %w", fifo.BatchError{jobs[1].ID: errOnPurpose}))
		}, 1, fifo.Buried, "on purpose"},
		"both around, without a reason": {func(jobs []*fifo.Job) error {
			return fifo.RetryAfter(time.Hour, fifo.DeadLetter(fifo.BatchError{jobs[1].ID: nil}))
		}, 1, fifo.Buried, "fifo: the BatchError names the job without a reason"},
		"later": {func(jobs []*fifo.Job) error {
			return fifo.BatchError{jobs[2].ID: fifo.RetryAfter(time.Hour, nil), -5: errOnPurpose}
		}, 2, fifo.Retried, "retry later"},
		"the last": {func(jobs []*fifo.Job) error {
			return fifo.BatchError{jobs[3].ID: fifo.RetryAfter(time.Hour, errOnPurpose)}
		}, 3, fifo.Retried, "on purpose"},
		"nil pointer": {func(jobs []*fifo.Job) error {
			return fifo.BatchError{jobs[1].ID: (*oddError)(nil)}
		}, 1, fifo.Retried, nilPointer},
		"nil pointer, wrapped": {func(jobs []*fifo.Job) error {
			return fmt.Errorf("x: %w", fifo.BatchError{jobs[1].ID: (*oddError)(nil)})
		}, 1, fifo.Retried, nilPointer},
		"the first, without a reason": {func(jobs []*fifo.Job) error {
			return fifo.BatchError{jobs[0].ID: nil}
		}, 0, fifo.Retried, "fifo: the BatchError names the job without a reason"},
		"no reason, beside another's": {func(jobs []*fifo.Job) error {
			return fifo.BatchError{jobs[0].ID: nil, jobs[1].ID: fifo.DeadLetter(errOnPurpose)}
		}, 0, fifo.Retried, "fifo: the BatchError names the job without a reason"},
	}
	b := newList(t)
	ids, settled := make(map[string][]int64), 0 // ids of each case's group
	for name, x := range cases {
		ids[name] = b.send(name, nil, nil, nil, nil)
		if settled += 4; x.ends == fifo.Retried {
			settled -= 3 - x.done // those behind it
		}
	}
	called := make(map[string]bool)
	w := b.slice(fifo.Queue{BatchJobs: 4}, func(ctx context.Context, jobs []*fifo.Job) error {
		name := jobs[0].GroupID
		if called[name] {
			return noteAll(ctx, jobs)
		}
		called[name] = true
		err := cases[name].err(jobs)
		jobs[0], jobs[3] = jobs[3], jobs[0] // the slice is the handler's
		return err
	}, func(w *fifo.Worker) { w.Retry = waiting(time.Hour) })
	r := b.run(w)
	await(t, "the outcomes", func() bool {
		s := w.Stats()
		return int(s.Succeeded+s.Buried+s.Retried) == settled
	})
	require.NoError(t, r.stop())
	batches := b.batches()
	for name, x := range cases {
		t.Run(name, func(t *testing.T) {
			g, ids := b.q.Group(name), ids[name]
			jobs, letters := b.jobsOf(g), b.lettersOf(g, fifo.Letters{})
			switch x.ends {
			case fifo.Buried:
				require.Contains(t, batches, ids[x.done+1:], "the rest went on")
				require.Empty(t, jobs)
				letter := only(t, letters)
				require.Equal(t, ids[x.done], letter.ID)
				require.Equal(t, x.text, letter.Failures[0].Error)
			case fifo.Retried:
				require.Len(t, jobs, 4-x.done)
				require.Equal(t, ids[x.done], jobs[0].ID)
				require.Equal(t, 1, jobs[0].Attempts)
				require.Equal(t, x.text, jobs[0].Failures[0].Error)
				require.Greater(t, time.Until(jobs[0].RunAt), 50*time.Minute)
				for _, job := range jobs[1:] {
					require.Zero(t, job.Attempts)
				}
			default:
				require.Empty(t, jobs)
			}
			require.Equal(t, x.ends == fifo.Buried, len(letters) > 0)
		})
	}
	require.Len(t, batches, b.count("dead_letters"), "nothing else ran again")
}

// A failure concerns its own group: the others' jobs are done, also those behind it in the batch.
func TestFailureInABatchOfGroups(t *testing.T) { overLeases(t, testFailureInABatchOfGroups) }

func testFailureInABatchOfGroups(t *testing.T, by lease) {
	pgtest.OverEach(t, []string{"each", "slice"}, func(t *testing.T, kind string) {
		b := by.on(newList(t))
		ids := b.sendMany("q", 6, 1)
		bad := ids[1:3]
		one := func(ctx context.Context, job *fifo.Job) error {
			if slices.Contains(bad, job.ID) && job.Attempt() == 1 {
				return errors.Join(execAnyway(ctx, job, "INSERT INTO list (id) VALUES (-1)"),
					fifo.RetryAfter(time.Hour, errOnPurpose))
			}
			return note(ctx, job)
		}
		w := b.each(fifo.Queue{BatchGroups: 6}, one)
		if kind == "slice" {
			w = b.slice(fifo.Queue{BatchGroups: 6}, func(ctx context.Context, jobs []*fifo.Job) error {
				failed := fifo.BatchError{}
				for _, job := range jobs {
					tx, err := job.PgxTx(ctx)
					if err != nil {
						return err
					}
					err = pgx.BeginFunc(ctx, tx, func(inner pgx.Tx) error {
						_, err := inner.Exec(ctx, "INSERT INTO list (group_id, id, attempt) VALUES ($1, $2, $3)",
							job.GroupID, job.ID, job.Attempt())
						if slices.Contains(bad, job.ID) && job.Attempt() == 1 {
							failed[job.ID] = fifo.RetryAfter(time.Hour, errOnPurpose)
							return errors.Join(err, errOnPurpose)
						}
						return err
					})
					if err != nil && failed[job.ID] == nil {
						return err
					}
				}
				return failed
			})
		}
		r := b.run(w)
		await(t, "all of them", func() bool { return w.Stats().Succeeded == 4 && w.Stats().Retried == 2 })
		require.Zero(t, w.Stats().Returned+w.Stats().Unknown+w.Stats().Lost)
		b.exec("UPDATE pgfifo.jobs SET run_at = NULL")
		r.finish()
		require.Equal(t, []int{1, 2, 2, 1, 1, 1}, b.attempts(ids...))
	})
}

// Hooks hear of every job of a batch, and the counters add up.
func TestBatchHooks(t *testing.T) {
	pgtest.OverEach(t, []string{"each", "slice"}, func(t *testing.T, kind string) {
		type key struct{}
		var mu sync.Mutex
		var calls []string
		say := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, fmt.Sprintf(format, args...))
		}
		b := newList(t, hooked(fifo.Hooks{
			Job: func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
				say("begin %d", job.ID)
				return context.WithValue(ctx, key{}, job.ID), func(err error) {
					say("end %d %v", job.ID, err != nil)
				}
			},
			Settled: func(_ context.Context, job *fifo.Job, o fifo.Outcome, err error) {
				say("%v %d %v", o, job.ID, err != nil)
			},
		}))
		b.send("g", nil, nil, nil)
		var w *fifo.Worker
		if kind == "each" {
			w = b.each(fifo.Queue{BatchJobs: 3}, func(ctx context.Context, job *fifo.Job) error {
				if job.ID == 2 && job.Attempt() == 1 || ctx.Value(key{}) != job.ID {
					return errOnPurpose
				}
				return nil
			})
		} else {
			w = b.slice(fifo.Queue{BatchJobs: 3}, func(ctx context.Context, jobs []*fifo.Job) error {
				if ctx.Value(key{}) != jobs[len(jobs)-1].ID {
					return errOnPurpose
				}
				if len(jobs) == 3 {
					return fifo.BatchError{2: errOnPurpose}
				}
				return nil
			})
		}
		b.work(w)
		want := map[string][]string{
			"each": {
				"begin 1", "end 1 false", "begin 2", "end 2 true", "succeeded 1 false", "retried 2 true",
				"begin 2", "end 2 false", "succeeded 2 false", "begin 3", "end 3 false", "succeeded 3 false",
			},
			"slice": {
				"begin 1", "begin 2", "begin 3", "end 3 true", "end 2 true", "end 1 true",
				"succeeded 1 false", "retried 2 true", "returned 3 true",
				"begin 2", "end 2 false", "succeeded 2 false", "begin 3", "end 3 false", "succeeded 3 false",
			},
		}
		require.Equal(t, want[kind], calls)
		stats := w.Stats()
		returned := int64(len(want[kind])-12) / 3
		require.Equal(t, fifo.Stats{
			Succeeded: 3, Retried: 1, Returned: returned, Claims: stats.Claims, Missed: stats.Missed,
		}, stats)
	})
}
