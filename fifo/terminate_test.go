package fifo_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// terminates reports whether somebody had the group.
func (b *bed) terminates(s fifo.Scope) bool {
	b.t.Helper()
	ended, err := s.Terminate(promptly(b.t))
	require.NoError(b.t, err)
	return ended
}

// A group is taken from its worker by force, and no other: with the session of the worker, or from it. The handler
// learns of it at once, whether it has the job's transaction or not. The attempt is counted as lost, and what the
// handler has written does not commit.
func TestTerminate(t *testing.T) { overLeases(t, testTerminate) }

func testTerminate(t *testing.T, by lease) {
	pgtest.OverAll(t, map[string]bool{"no transaction": false, "transaction": true}, func(t *testing.T, writes bool) {
		b := by.on(newList(t))
		b.send("g", "stuck")
		b.send("other", "fine")
		h := newBlocking()
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			if writes {
				if err := note(ctx, job); err != nil {
					return err
				}
			}
			_ = h.handle(ctx, job)
			return nil // whatever has become of it
		}))
		receive(t, h.started, "a handler")
		receive(t, h.started, "the other")
		b.listening()
		keeper, g := 0, b.q.Group("g")
		if by == bySession {
			keeper = b.oneKeeper()
		}
		require.True(t, b.terminates(g))
		require.ErrorIs(t, receive(t, h.causes, "the end of the context"), fifo.ErrLost)
		receive(t, h.started, "the next attempt")
		jobs := b.jobsOf(g)
		require.Equal(t, 1, jobs[0].Attempts)
		require.Equal(t, fifo.KindLost, jobs[0].Failures[0].Kind)
		require.Empty(t, h.causes, "the other goes on")
		if by == bySession {
			require.Equal(t, keeper, b.oneKeeper(), "and so does the session")
		}
		close(h.release)
		b.drained()
		if writes {
			require.Equal(t, []int{1, 2}, query[[]int](b, "SELECT array_agg(attempt ORDER BY attempt) FROM list"))
			require.Equal(t, 1, query[int](b, "SELECT count(*) FROM list WHERE group_id = 'g'"))
		}
		require.False(t, b.terminates(g), "nobody holds it")
		_, err := b.q.Terminate(t.Context())
		require.ErrorIs(t, err, fifo.ErrInvalidID)
	})
}

// A handler that goes on after its group was taken is none of those that its queue may run.
func TestTerminateFreesTheSlot(t *testing.T) {
	pgtest.OverAll(t, leases, func(t *testing.T, by lease) {
		pgtest.OverAll(t, map[string]bool{"in its transaction": true, "outside": false}, func(t *testing.T, inTx bool) {
			b := by.on(newList(t))
			b.ledger.overlaps = true
			b.limit(0, 1)
			b.send("g", nil)
			h, release := newBlocking(), make(chan struct{})
			b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
				if inTx {
					if err := note(ctx, job); err != nil {
						return err
					}
				}
				err := h.handle(ctx, job)
				<-release
				return err
			}))
			receive(t, h.started, "a handler")
			b.listening()
			require.True(t, b.terminates(b.q.Group("g")))
			require.ErrorIs(t, receive(t, h.causes, "the end of its context"), fifo.ErrLost)
			began := make(chan struct{})
			b.run(b.worker(func(context.Context, *fifo.Job) error { close(began); return nil }))
			receive(t, began, "its successor")
			close(release)
			b.drained()
		})
	})
}
