package fifo

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// runBeside runs the scout or the listener, on one connection after another: on *first, unless that is nil, then on
// those that it opens. If all is refused at once on one, for want of a right say, the next rest is longer.
func (c *crew) runBeside(
	ctx context.Context, retry *redialer, first **pgx.Conn, run func(context.Context, *pgx.Conn) error,
) {
	for ctx.Err() == nil {
		conn := *first
		*first = nil
		var err error
		if conn == nil {
			conn, err = c.dialer.Connect(ctx)
		}
		if err == nil {
			began := time.Now()
			c.beside.Store(conn, retry.who)
			err = run(ctx, conn)
			c.beside.Delete(conn)
			closeConn(conn)
			if time.Since(began) > tuning.Wait {
				retry.failed = 0
			}
		}
		retry.wait(ctx, err)
	}
}

// runStranded gives up connections whose answer will not come: those of the scout, of the listener, and of lanes on
// which no handler runs.
func (c *crew) runStranded(ctx context.Context) {
	every(ctx, c.set.bounds.Silence/4, func() {
		var looks errgroup.Group
		looks.SetLimit(parallelDials())
		look := func(who string, cut func(context.Context) error) {
			looks.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, min(grace, c.set.bounds.Silence))
				defer cancel()
				if err := cut(ctx); err != nil {
					c.log.Warn("pgfifo: a connection is given up", "who", who, "error", err)
				}
				return nil
			})
		}
		for _, s := range c.seats {
			if lane := s.unanswered(); lane != nil {
				look("lane", lane.CutStranded)
			}
		}
		c.beside.Range(func(conn, who any) bool {
			look(who.(string), func(ctx context.Context) error { return c.dialer.CutStranded(ctx, conn.(*pgx.Conn)) })
			return true
		})
		_ = looks.Wait()
	})
}

// closeBeside closes the connections that the scout and the listener have not taken.
func (c *crew) closeBeside() {
	for _, conn := range []*pgx.Conn{c.scoutConn, c.listenConn} {
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
