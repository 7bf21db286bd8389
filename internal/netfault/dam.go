package netfault

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
)

// A Dam holds back what a server answers on connections that have prepared a statement. The server works what it is
// asked meanwhile.
type Dam struct {
	statement string
	open      atomic.Pointer[chan struct{}] // nil: it is
}

// NewDam returns an open one, for connections whose statements contain that text.
func NewDam(statement string) *Dam { return &Dam{statement: statement} }

// Shut holds back what comes from now on.
func (d *Dam) Shut() {
	open := make(chan struct{})
	d.open.Store(&open)
}

// Open lets all of it through.
func (d *Dam) Open() {
	if open := d.open.Swap(nil); open != nil {
		close(*open)
	}
}

// Dial makes connections.
func (d *Dam) Dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &damConn{Conn: conn, dam: d}, nil
	}
}

type damConn struct {
	net.Conn
	dam      *Dam
	prepared atomic.Bool
}

func (c *damConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(c.dam.statement)) {
		c.prepared.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *damConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if open := c.dam.open.Load(); open != nil && c.prepared.Load() {
		<-*open
	}
	return n, err
}
