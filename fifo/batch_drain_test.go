package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A worker that is told to stop ends the job that runs, not the batch: what is finished is done, the rest has not been
// tried.
func TestDrainInABatch(t *testing.T) { overLeases(t, testDrainInABatch) }

func testDrainInABatch(t *testing.T, by lease) {
	t.Parallel()
	for _, drain := range []time.Duration{0, -1} {
		for _, batch := range []fifo.Queue{{BatchJobs: 5}, {BatchGroups: 5}} {
			t.Run(drain.String(), func(t *testing.T) {
				b := by.on(newList(t))
				h := newBlocking()
				if batch.BatchGroups > 1 {
					for _, g := range []string{"a", "b", "c", "d", "e", "f"} {
						b.send(g, nil)
					}
				} else {
					b.send("g", make([]any, 6)...)
				}
				n := 0
				w := b.each(batch, func(ctx context.Context, job *fifo.Job) error {
					if err := note(ctx, job); err != nil {
						return err
					}
					if n++; n == 3 {
						return h.handle(ctx, job)
					}
					return nil
				}, func(w *fifo.Worker) { w.DrainTimeout = drain })
				r := b.run(w)
				id := receive(t, h.started, "the third")
				r.cancel()
				if drain == 0 {
					close(h.release)
				} else {
					require.Equal(t, fifo.ErrShutdown, receive(t, h.causes, "the cause"))
				}
				require.NoError(t, r.wait())
				require.Equal(t, 3, n, "no other was begun")
				done := 3
				if drain < 0 {
					done = 2
					require.EqualValues(t, 1, w.Stats().Returned)
				}
				require.EqualValues(t, done, w.Stats().Succeeded)
				require.Equal(t, done, query[int](b, "SELECT count(*) FROM list"))
				require.Equal(t, drain == 0, query[bool](b, "SELECT EXISTS (SELECT FROM list WHERE id = $1)", id))
				jobs := b.jobs()
				require.Len(t, jobs, 6-done)
				for _, job := range jobs {
					require.Zero(t, job.Attempts)
					require.Empty(t, job.Failures)
				}
				attempts := 0 // and the next worker sees no crash in it
				b.work(b.slice(batch, func(_ context.Context, jobs []*fifo.Job) error {
					for _, job := range jobs {
						attempts += job.Attempts
					}
					return nil
				}))
				require.Zero(t, attempts)
			})
		}
	}
}

// A BatchHandler is told when the drain timeout has passed. What it gives back counts for nothing; what it has done
// stays done if it names the others.
func TestDrainTimeoutOfABatchHandler(t *testing.T) {
	type row struct {
		last func(jobs []*fifo.Job, err error) error
		done int
	}
	overAll(t, map[string]row{
		"error":    {func(_ []*fifo.Job, err error) error { return err }, 0},
		"panic":    {func(_ []*fifo.Job, err error) error { panic(err) }, 0},
		"named":    {func(jobs []*fifo.Job, err error) error { return fifo.BatchError{jobs[2].ID: err} }, 2},
		"finished": {func([]*fifo.Job, error) error { return nil }, 4},
	}, func(t *testing.T, x row) {
		b := newBed(t)
		h := newBlocking()
		ids := b.send("g", nil, nil, nil, nil)
		w := b.slice(fifo.Queue{BatchJobs: 4}, func(ctx context.Context, jobs []*fifo.Job) error {
			return x.last(jobs, h.handle(ctx, jobs[0]))
		}, func(w *fifo.Worker) { w.DrainTimeout = -1 })
		r := b.run(w)
		receive(t, h.started, "the handler")
		require.NoError(t, r.stop())
		require.Equal(t, fifo.ErrShutdown, receive(t, h.causes, "the cause"))
		stats := w.Stats()
		require.EqualValues(t, x.done, stats.Succeeded)
		require.EqualValues(t, 4-x.done, stats.Returned)
		require.Zero(t, stats.Retried)
		jobs := b.jobs()
		require.Len(t, jobs, 4-x.done)
		for i, job := range jobs {
			require.Equal(t, ids[i+x.done], job.ID)
			require.Zero(t, job.Attempts)
		}
	})
}
