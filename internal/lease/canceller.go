package lease

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
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

// cancelRest is how long a request may take on its way within the server, from its answer on: the next statement must
// not be cancelled by it.
const cancelRest = 100 * time.Millisecond

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
	for gap := cancelRest; ctx.Err() == nil; gap *= 2 {
		// If it fails nothing was sent, and the next one may not fail.
		if err := c.conn.CancelRequest(ctx); err == nil && ctx.Err() != nil {
			c.late()
			return
		}
		time.Sleep(cancelRest)
		select {
		case <-c.stopped:
			return
		case <-time.After(gap):
		}
	}
}

// late says that a request is on its way which the server has not answered in time: it may still cancel what runs then.
// That must be nobody else's, so the connection goes on to no other job.
func (c *canceller) late() {
	if s, ok := c.conn.Conn().(*stream); ok {
		s.late.Store(true)
		s.spoiled.Store(true)
	}
}

// HandleUnwatchAfterCancel implements ctxwatch.Handler.
func (c *canceller) HandleUnwatchAfterCancel() {
	close(c.stopped)
	<-c.done
	_ = c.conn.Conn().SetDeadline(time.Time{})
}
