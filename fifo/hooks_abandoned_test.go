package fifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// The Settled hook has what the Job hook returned when the handler was abandoned, too. There is nothing of a Job hook
// that has not returned.
func TestSettledHasTheValuesOfTheAbandoned(t *testing.T) {
	t.Parallel()
	type key struct{}
	for _, jobs := range []int{1, 2} {
		for _, inHook := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, in the hook: %v", jobs, inHook), func(t *testing.T) {
				h := newStubborn()
				seen := make(chan [3]any, jobs)
				b := newBed(t, func(cfg *fifo.Config) {
					cfg.Hooks[0].Job = func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
						if inHook {
							_ = h.handle(ctx, job)
						}
						return context.WithValue(ctx, key{}, job.ID), nil
					}
					settled := cfg.Hooks[0].Settled
					cfg.Hooks[0].Settled = func(ctx context.Context, job *fifo.Job, outcome fifo.Outcome, err error) {
						settled(ctx, job, outcome, err)
						seen <- [3]any{job.ID, ctx.Value(key{}), ctx.Err()}
					}
				})
				ids := b.send("g", make([]any, jobs)...)
				w := &fifo.Worker{Client: b.client, DrainTimeout: -1, AbandonAfter: 20 * time.Millisecond}
				w.HandleQueue("q", fifo.Queue{
					BatchJobs: jobs,
					BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error {
						return h.handle(ctx, jobs[0])
					},
				})
				r := b.run(w)
				receive(t, h.started, "the handler, or the hook")
				require.ErrorIs(t, r.stop(), fifo.ErrDrainTimeout)
				for _, id := range ids {
					want := [3]any{id, id, nil}
					if inHook {
						want[1] = nil
					}
					require.Equal(t, want, receive(t, seen, "what Settled saw"))
				}
				close(h.release)
				await(t, "the end of the handler", func() bool { return w.Stats().Abandoned == 0 })
			})
		}
	}
}
