package lease

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
)

// A link is a connection of a worker's, and what is known of the server at its other end. Its methods are for any
// goroutine, except pg and Conn.
type link struct {
	conn    *stdlib.Conn // for database/sql; conn.Conn() is the same connection
	wire    *wire
	stream  *stream
	control *pgxpool.Pool // where another session is asked about this one; or nil
	bounds  Bounds
	pooled  bool // its session is a pooler's: see pooled.go

	lost atomic.Bool // a heartbeat found the connection dead
}

func (l *link) pg() *pgconn.PgConn { return l.conn.Conn().PgConn() }

// Conn returns the lane's connection, for statements while it holds nothing.
func (l *link) Conn() *pgx.Conn { return l.conn.Conn() }

// Closed reports whether the connection is gone. A group that it held is free then.
func (l *link) Closed() bool { return l.lost.Load() || l.conn.Conn().IsClosed() }

// HungUp reports whether the server, or the network, has ended the session, as far as the socket knows. It sends
// nothing, and may be called from any goroutine. On systems other than Linux it may not know.
func (l *link) HungUp() bool { return l.stream.ended() }

// kill cuts the connection from another goroutine. The server rolls back what was open, which counts as a lost
// attempt of the held job.
func (l *link) kill() { _ = l.pg().Conn().Close() }

// Abandon cuts the connection for good while a handler still uses it: the handler's transaction cannot commit any more,
// and the lane's own goroutine leaves the connection alone. Any goroutine may call it.
func (l *link) Abandon() { _ = l.cut(nil) }

// cut gives the connection up.
func (l *link) cut(why error) error {
	l.lost.Store(true)
	l.kill()
	return errors.Join(ErrLost, why)
}

// Unanswered returns for how long the server has owed the lane an answer, or 0. Any goroutine may call it.
func (l *link) Unanswered() time.Duration { return l.stream.unanswered() }

// CutStranded gives the connection up if the lane is stranded, and returns an error then. It is to be called again and
// again: what it finds once may be an answer that is on its way. Any goroutine may call it, while no handler runs: a
// handler may leave an answer unread.
func (l *link) CutStranded(ctx context.Context) error {
	if l.control == nil || !l.stream.stranded(ctx, l.control, l.bounds.Silence) {
		return nil
	}
	return l.cut(errStranded)
}
