package main

import (
	"context"
	"net"
	"sync/atomic"
)

// roundTrips counts how often a client waited for an answer to what it had sent: PostgreSQL does not.
type roundTrips struct{ count atomic.Int64 }

func (r *roundTrips) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn, trips: r}, nil
}

// A countedConn counts the first read after each write.
type countedConn struct {
	net.Conn
	trips *roundTrips
	asked atomic.Bool
}

func (c *countedConn) Write(b []byte) (int, error) {
	c.asked.Store(true)
	return c.Conn.Write(b)
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.asked.Swap(false) {
		c.trips.count.Add(1)
	}
	return n, err
}
