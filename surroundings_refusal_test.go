//go:build unix

package pgfifo_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A worker refuses sessions that are not its own, also beside other clients of the pooler, and leaves nothing in them.
func TestWorkerRefusesSharedSessions(t *testing.T) {
	overEach(t, []string{"transaction", "statement"}, func(t *testing.T, mode string) {
		s := newSite(t)
		b := newBouncer(t, mode, map[string]string{"default_pool_size": "8"})
		through := b.through(s.url)
		for range 6 { // others, at work
			conn := connectIn(t, through, pgx.QueryExecModeSimpleProtocol)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil {
					_, _ = conn.Exec(ctx, "SELECT 1")
				}
			}()
			t.Cleanup(func() {
				stop()
				<-ended
			})
		}
		client := fifo.Open(connectIn(t, through, pgx.QueryExecModeSimpleProtocol), nil)
		t.Cleanup(func() { require.NoError(t, client.Close()) })
		s.enqueue(message("g", task{}))
		for range 20 {
			w := &fifo.Worker{Client: client, Concurrency: 2}
			w.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
			ctx, stop := context.WithTimeout(t.Context(), patience) // one that works would not end
			err := w.Run(ctx)
			stop()
			require.ErrorIs(t, err, fifo.ErrPooled)
			_, err = w.RunOne(t.Context())
			require.ErrorIs(t, err, fifo.ErrPooled)
		}
		require.Equal(t, 1, s.jobs())
		if mode == "transaction" {
			requireCleanSessions(s, b)
		}
	})
}
