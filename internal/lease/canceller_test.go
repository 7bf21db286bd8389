package lease

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A statement whose context ends is cancelled, and the group stays held. The request may come too early, or not at all:
// it is made again.
func TestCancelRequestIsLost(t *testing.T) {
	pgtest.OverEach(t, []int32{0, 2}, func(t *testing.T, lost int32) {
		s := newStage(t)
		s.Enqueue(1, "a")
		d := s.dialer(Bounds{})
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
		lose.Store(lost)
		s.cancelled(l, h)
		s.end(l, succeed(h)...)
		require.Negative(t, lose.Load())
	})
}

// A cancel request that the server has not answered in time may come at any time: no other job is to meet it, and if
// the settling of its own does, the job has not failed.
func TestCancelRequestIsLate(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	late := netfault.NewLate()
	d := s.dialer(Bounds{Heartbeat: 100 * time.Millisecond, Silence: time.Second})
	d.Pool.ConnConfig.DialFunc = late.Dial(d.Pool.ConnConfig.DialFunc)
	d.Statements["succeed"] += " AND pg_sleep(60) IS NOT NULL"
	l := s.dial(d)
	h := s.claim(l, "a")
	require.NoError(t, l.Lend(t.Context(), func() {
		late.Hold()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.pgxTx(h).Exec(ctx, "SELECT pg_sleep(0.5)")
		require.NoError(t, err, "nothing has cancelled it")
	}))
	require.True(t, l.Spoiled())
	go func() {
		s.Until(func() bool {
			return pgtest.One[bool](s.DB, "SELECT count(*) > 0 FROM pg_stat_activity "+
				"WHERE pid = $1 AND wait_event = 'PgSleep'", l.pg().PID())
		})
		late.Deliver()
	}()
	require.ErrorIs(t, s.unsettled(l, succeed(h), nil), ErrUnsettled)
	require.NoError(t, l.Record(t.Context(), &h.Held))

	other := s.lane()
	again := s.claim(other, "a")
	require.Zero(t, again.Attempts)
	require.Empty(t, s.found(other))
	s.end(other, succeed(again)...)
}

// No request is on its way any more when the next statement begins.
func TestCancelRequestIsForOneStatement(t *testing.T) {
	s, l, h := held(t, 1)
	require.NoError(t, l.Lend(t.Context(), func() {
		tx := s.pgxTx(h)
		for range 5 {
			inner := s.inside(tx)
			ctx, cancel := context.WithCancel(t.Context())
			cancelled := make(chan struct{})
			go func() {
				defer close(cancelled)
				cancel()
			}()
			_, _ = inner.Exec(ctx, "SELECT") // may be done already
			<-cancelled
			_ = inner.Rollback(t.Context())
			s.do(tx, "SELECT pg_sleep(0.01)")
		}
	}))
	s.end(l, succeed(h)...)
}
