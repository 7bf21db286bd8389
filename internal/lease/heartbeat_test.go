package lease

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestBeatWhileNoHandlerRuns(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	l := s.lane()
	require.NoError(t, l.Beat(t.Context()))
	require.Zero(t, l.Running())
	s.claim(l, "a")
	s.Terminate(l.pg().PID())
	require.NoError(t, l.Beat(t.Context()), "it does nothing: the lane's own goroutine finds out")
	require.False(t, l.Closed())
}

// Heartbeats pass between the handler's statements, and in an aborted transaction, too.
func TestBeatBetweenStatements(t *testing.T) {
	s, l, h := held(t, 1)
	require.NoError(t, l.Lend(t.Context(), func() {
		tx := s.pgxTx(h)
		require.NoError(t, l.Beat(t.Context()))
		_, err := tx.Exec(t.Context(), nonsense)
		require.Error(t, err)
		require.NoError(t, l.Beat(t.Context()))
		require.NoError(t, tx.Rollback(t.Context()))
		rows, err := s.pgxTx(h).Query(t.Context(), "SELECT generate_series(1, 1000)")
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.NoError(t, l.Beat(t.Context()), "beside open rows, too")
		rows.Close()
		require.NoError(t, rows.Err())
	}))
	s.end(l, succeed(h)...)
}

// The handler and the heartbeat use one connection, and never at once.
func TestBeatBesideStatements(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	l := s.lane()
	_, err := l.Conn().Exec(t.Context(), "CREATE TEMP TABLE copied (n integer)")
	require.NoError(t, err)
	h := s.claim(l, "a")
	stop := make(chan struct{})
	beats := make([]error, 3)
	var beating sync.WaitGroup
	for i := range beats {
		beating.Go(func() {
			for beats[i] == nil {
				beats[i] = l.Beat(context.WithoutCancel(t.Context()))
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	err = l.Lend(t.Context(), func() {
		btx := s.bunTx(h)
		stmt, err := btx.PrepareContext(t.Context(), "SELECT $1::integer")
		require.NoError(t, err)
		for range 10 { // beside beats without a pause, which a handler waits for
			tx := s.pgxTx(h)
			s.do(tx, "SELECT 1")
			_, err = btx.ExecContext(t.Context(), "SELECT ?", 1)
			require.NoError(t, err)
			_, err = stmt.ExecContext(t.Context(), 1)
			require.NoError(t, err)
			_, err = tx.Prepare(t.Context(), "again", "SELECT 1")
			require.NoError(t, err)
			_, err = tx.CopyFrom(t.Context(), pgx.Identifier{"pg_temp", "copied"}, []string{"n"},
				pgx.CopyFromRows([][]any{{int32(1)}}))
			require.NoError(t, err)
			require.NoError(t, tx.Commit(t.Context()))
			nested, err := btx.Begin()
			require.NoError(t, err)
			require.NoError(t, nested.Rollback())
			var n int
			require.NoError(t, btx.NewRaw("SELECT count(*) FROM copied").Scan(t.Context(), &n))
			require.Positive(t, n)
		}
		require.NoError(t, stmt.Close())
		require.NoError(t, btx.Rollback())
	})
	require.NoError(t, err)
	s.end(l, succeed(h)...) // while they go on
	close(stop)
	beating.Wait()
	require.Equal(t, make([]error, len(beats)), beats)
}

// A connection that has ended is of no use to the handler, whoever finds out.
func TestConnectionLost(t *testing.T) {
	pgtest.OverAll(t, map[string]func(s *stage, l *Lane){
		"a heartbeat": func(s *stage, l *Lane) {
			s.Terminate(l.pg().PID())
			require.ErrorIs(s, l.Beat(s.Context()), ErrLost)
			require.True(s, l.Closed())
		},
		"another goroutine": func(s *stage, l *Lane) {
			require.NoError(s, <-beside(func() error { l.kill(); return nil }))
			s.Until(func() bool { return len(s.Locked()) == 0 })
		},
	}, func(t *testing.T, lose func(s *stage, l *Lane)) {
		s, l, h := held(t, 1)
		require.ErrorIs(t, l.Lend(t.Context(), func() {
			lose(s, l)
			_, err := h.loan.PgxTx(t.Context())
			require.Error(t, err)
		}), ErrLost)
		require.ErrorIs(t, l.Undo(t.Context()), ErrLost)
		_, settled, err := l.Step(t.Context(), succeed(h), nil)
		require.True(t, err != nil || settled, "nothing was held any more")
		require.Equal(t, 1, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
	})
}

// A server that answers too late is as good as gone.
func TestBeatGivesUp(t *testing.T) {
	s, l, _ := held(t, 1)
	err := l.Lend(t.Context(), func() {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Beat(ended), ErrLost)
	})
	require.ErrorIs(t, err, ErrLost)
	s.Until(func() bool { return len(s.Locked()) == 0 })
}

// A sluggish connection's writes return later than the server's answer may come, as on a machine that is short of
// processors.
type sluggish struct {
	*net.TCPConn
	on *atomic.Bool
}

func (c sluggish) Write(b []byte) (int, error) {
	n, err := c.TCPConn.Write(b)
	if c.on.Load() {
		<-time.After(100 * time.Millisecond) // pgx reads in the background after 15
	}
	return n, err
}

// pgx reads in the background if a write takes long, and may go on with that when the answer has been read. Heartbeats
// are sent all the same.
func TestBeatBesideAReaderInTheBackground(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*stage, *Dialer){
		"plain": func(*stage, *Dialer) {}, "TLS": encrypted,
	}, func(t *testing.T, prepare func(*stage, *Dialer)) {
		s := newStage(t)
		s.Enqueue(1, "a", "silent")
		s.Exec("CREATE TABLE effects (v text)")
		d := s.dialer(hasty)
		prepare(s, d)
		var on atomic.Bool
		dial := d.Pool.ConnConfig.DialFunc
		d.Pool.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return sluggish{conn.(*net.TCPConn), &on}, nil
		}
		l := s.dial(d)
		h := s.claim(l, "a")
		cause, held := s.beside(l, func(ctx context.Context) {
			tx := s.pgxTx(h)
			on.Store(true)
			s.write(tx, "kept")
			on.Store(false)
			s.over(hasty)
			s.write(tx, "kept, too")
		})
		require.NoError(t, cause)
		require.NoError(t, held)
		s.end(l, succeed(h)...)
		require.Equal(t, 2, pgtest.One[int](s.DB, "SELECT count(*) FROM effects"))
	})
}
