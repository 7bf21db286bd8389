package lease

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A canceller ends a lane's statement whose context has ended, and keeps the connection, on which the group is held.
//
// A cancel request that reaches the server before the statement does is lost (PostgreSQL manual, "Canceling Requests in
// Progress"), and then the statement would go on until the connection is given up. So it is sent again, until the
// statement has ended.
type canceller struct {
	conn *pgconn.PgConn
	// delay is how long the server has to answer before the connection is given up.
	delay time.Duration

	stopped, done chan struct{}
}

// HandleCancel implements ctxwatch.Handler.
func (c *canceller) HandleCancel(context.Context) {
	deadline := time.Now().Add(c.delay)
	_ = c.conn.Conn().SetDeadline(deadline)
	c.stopped, c.done = make(chan struct{}), make(chan struct{})
	go c.cancel(deadline)
}

func (c *canceller) cancel(deadline time.Time) {
	defer close(c.done)
	ctx, stop := context.WithDeadline(context.Background(), deadline)
	defer stop()
	for n := 1; ctx.Err() == nil; n++ {
		// If it fails nothing was sent, and the next one may not fail.
		if err := c.conn.CancelRequest(ctx); err == nil && ctx.Err() != nil {
			if s, ok := c.conn.Conn().(*stream); ok {
				s.cancelledLate()
			}
			return
		}
		// The request may be on its way within the server, from its answer on: it must not cancel the next statement.
		time.Sleep(tuning.Slow)
		select {
		case <-c.stopped:
			return
		case <-time.After(rest.Nth(n, tuning.Slow, tuning.Grace)):
		}
	}
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (c *canceller) HandleUnwatchAfterCancel() {
	close(c.stopped)
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
