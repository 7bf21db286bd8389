package netfault

import (
	"bytes"
	"errors"
	"net"
	"sync/atomic"
)

// A Cut ends a connection that is about to send the text Before: the first that does so when the Cut is armed.
type Cut struct {
	Before string
	Armed  atomic.Bool
	Made   atomic.Bool // it has ended one
}

// Conn returns conn, which the Cut may end.
func (c *Cut) Conn(conn net.Conn) net.Conn { return &cutConn{conn, c} }

type cutConn struct {
	net.Conn
	cut *Cut
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut.Armed.Load() && bytes.Contains(p, []byte(c.cut.Before)) && c.cut.Made.CompareAndSwap(false, true) {
		return 0, errors.Join(net.ErrClosed, c.Close())
	}
	return c.Conn.Write(p)
}
