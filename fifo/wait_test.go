package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// WaitEmpty waits for the last job of the queue or the group, and for no other.
func TestWaitEmpty(t *testing.T) {
	b := newBed(t)
	q := b.client.Queue("q")
	require.NoError(t, q.WaitEmpty(promptly(t)), "there is no such queue")
	b.plant("p", 1, "g")
	b.plant("r", 1, "g")
	b.plant("q", 1, "a", "c", "é")
	require.NoError(t, q.Group("b").WaitEmpty(promptly(t)))
	for _, s := range []fifo.Scope{q, q.Group("é"), q.Group("c")} {
		ended := make(chan error, 1)
		h := newBlocking()
		r := b.run(b.worker(h.handle, func(w *fifo.Worker) { w.Concurrency = 3 }))
		for range 3 {
			receive(t, h.started, "a job")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, s.WaitEmpty(ctx), context.DeadlineExceeded, "they run")
		cancel()
		go func() { ended <- s.WaitEmpty(promptly(t)) }()
		close(h.release)
		require.NoError(t, receive(t, ended, "the end"))
		require.NoError(t, r.stop())
		b.plant("q", 1, "a", "c", "é")
	}
}
