package lease

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

// A cancel request may come too early, or not at all: the statement is cancelled all the same, and the group stays
// held.
func TestCancelRequestIsLost(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(groups.Session{})
	dial := d.Pool.ConnConfig.DialFunc
	var lose atomic.Int32
	d.Pool.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if lose.Add(-1) >= 0 {
			return nil, errors.New("lost")
		}
		return dial(ctx, network, addr)
	}
	l := s.dial(d)
	h := s.claim(l, "a")
	lose.Store(2)
	s.cancelled(l, h)
	s.end(l, succeed(h)...)
	require.Negative(t, lose.Load())
}

// No request is on its way any more when the next statement begins.
func TestCancelRequestIsForOneStatement(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Enqueue(1, "a")
	l := s.lane()
	h := s.claim(l, "a")
	require.NoError(t, l.Lend(func() {
		tx := s.pgxTx(h)
		for range 5 {
			inner, err := tx.Begin(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			cancelled := make(chan struct{})
			go func() {
				defer close(cancelled)
				cancel()
			}()
			_, _ = inner.Exec(ctx, "SELECT") // may be done already
			<-cancelled
			_ = inner.Rollback(t.Context())
			_, err = tx.Exec(t.Context(), "SELECT pg_sleep(0.01)")
			require.NoError(t, err)
		}
	}))
	s.end(l, succeed(h)...)
}
