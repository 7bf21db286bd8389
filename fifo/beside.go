package fifo

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

const scoutName = "scout"

// beside has the connections of the scout and of the listener, which work beside the lanes.
type beside struct {
	dialer        *lease.Dialer
	scout, listen *pgx.Conn // the first ones, until they are taken
	open          sync.Map  // *pgx.Conn → "scout" or "listener"
	scoutLost     atomic.Pointer[time.Time]
}

// run runs the scout or the listener, on one connection after another: on *first, unless that is nil, then on those
// that it opens. If the run ends at once, because a right is missing, say, the next rest is longer.
func (b *beside) run(
	ctx context.Context, retry *redialer, first **pgx.Conn, run func(context.Context, *pgx.Conn) error,
) {
	var told limiter
	for ctx.Err() == nil {
		conn := *first
		*first = nil
		var err error
		if conn == nil {
			conn, err = b.dialer.Connect(ctx)
		}
		if err != nil {
			retry.lose()
		} else {
			began := time.Now()
			b.open.Store(conn, retry.who)
			err = run(ctx, conn)
			if conn.IsClosed() || b.dialer.HungUp(conn) {
				retry.lose()
			}
			b.open.Delete(conn) // from now on HungUp does not see it
			closeConn(conn)
			if time.Since(began) > tuning.Wait {
				retry.failed = 0
			}
		}
		retry.wait(ctx, err, &told)
	}
}

// scoutHungUp reports whether the scout has a connection that has ended, as far as is known without asking the server.
func (b *beside) scoutHungUp() (gone bool) {
	b.each(func(who string, conn *pgx.Conn) { gone = gone || who == scoutName && b.dialer.HungUp(conn) })
	return gone
}

// each calls f for each connection that is open.
func (b *beside) each(f func(who string, conn *pgx.Conn)) {
	b.open.Range(func(conn, who any) bool {
		f(who.(string), conn.(*pgx.Conn))
		return true
	})
}

// close closes the connections that were not taken.
func (b *beside) close() {
	for _, conn := range []*pgx.Conn{b.scout, b.listen} {
		if conn != nil {
			closeConn(conn)
		}
	}
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	_ = conn.Close(ctx)
}
