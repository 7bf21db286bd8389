package main

import (
	"context"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// A vigil is jobs that run until they are let go.
type vigil struct {
	over context.Context
	end  context.CancelFunc // lets them go
}

func newVigil() *vigil {
	v := new(vigil)
	v.over, v.end = context.WithCancel(context.Background())
	return v
}

// stand is what their handler does.
func (v *vigil) stand(ctx context.Context) error {
	select {
	case <-v.over.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// start has n of them running, each in a group of its own from the first one on.
func (v *vigil) start(ctx context.Context, c *crew, queue string, first, n int) error {
	client := c.client()
	defer func() { _ = client.Close() }()
	for i := range n {
		msg := fifo.Message{Queue: queue, GroupID: groupID(first + i), Payload: make([]byte, 8)}
		if _, err := client.Enqueue(ctx, msg); err != nil {
			return err
		}
		c.filled++
	}
	return until(ctx, func() (bool, error) { return c.ledger.count.Load() == int64(n), nil })
}

// oldTransactions counts the worker's transactions with an id that have been open for so long.
func (d *database) oldTransactions(ctx context.Context, age time.Duration) (n int, err error) {
	err = d.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND application_name = $1 AND backend_xid IS NOT NULL
		AND xact_start < clock_timestamp() - make_interval(secs => $2)`, workerName, age.Seconds()).Scan(&n)
	return n, err
}
