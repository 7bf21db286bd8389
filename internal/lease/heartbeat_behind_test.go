package lease

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
	overAll(t, map[string]func(*stage, *Dialer){
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
