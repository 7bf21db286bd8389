package netfault

import (
	"context"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Late network holds back what is sent first on one connection, and takes its closing for nothing.
type Late struct {
	hold atomic.Bool
	held chan func()
}

// NewLate returns one that holds nothing back yet.
func NewLate() *Late { return &Late{held: make(chan func(), 1)} }

// Hold has the next connection held back.
func (l *Late) Hold() { l.hold.Store(true) }

// Deliver sends what was held back, and waits until the server has closed the connection.
func (l *Late) Deliver() { (<-l.held)() }

// Dial makes connections.
func (l *Late) Dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err == nil && l.hold.CompareAndSwap(true, false) {
			return &lateConn{conn, l.held}, nil
		}
		return conn, err
	}
}

type lateConn struct {
	net.Conn
	held chan func()
}

func (c *lateConn) Write(b []byte) (int, error) {
	b = slices.Clone(b)
	c.held <- func() {
		_ = c.SetDeadline(time.Time{})
		_, _ = c.Conn.Write(b)
		_, _ = io.ReadAll(c.Conn)
		_ = c.Conn.Close()
	}
	return len(b), nil
}

func (c *lateConn) Close() error { return nil }
