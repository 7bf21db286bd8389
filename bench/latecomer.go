package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

// latecomers are messages whose transactions drew their ids early and commit late, when a higher id of the group is
// done. Each has a group of its own, in which the other message has number 0 and the late one 1.
type latecomers struct {
	crew         *crew
	first, count int // groups

	starts []chan time.Time
	found  *histogram
}

// newLatecomers makes the crew's handler look out for them.
func newLatecomers(c *crew, first, count int) *latecomers {
	l := &latecomers{crew: c, first: first, count: count, found: newHistogram()}
	for range l.messages() {
		l.starts = append(l.starts, make(chan time.Time, 1))
	}
	c.handler = l.handle
	return l
}

func (l *latecomers) messages() int64 { return 2 * int64(l.count) }

func (l *latecomers) handle(_ context.Context, job *fifo.Job) error {
	if g, err := groupNumber(job.GroupID); err == nil && g >= l.first {
		l.starts[2*(g-l.first)+int(binary.BigEndian.Uint64(job.Payload))] <- time.Now()
	}
	return nil
}

// send sends all, one after the other.
func (l *latecomers) send(ctx context.Context) error {
	client := l.crew.client()
	defer func() { _ = client.Close() }()
	for i := range l.count {
		if err := l.one(ctx, client, i); err != nil {
			return err
		}
	}
	return nil
}

func (l *latecomers) one(ctx context.Context, client *fifo.Client, i int) error {
	message := func(number uint64) fifo.Message {
		return fifo.Message{
			Queue: queue, GroupID: groupID(l.first + i), Payload: binary.BigEndian.AppendUint64(nil, number),
		}
	}
	tx, err := l.crew.db.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit: harmless
	late, err := receipt.IDs(client.EnqueuePgxTx(ctx, tx, message(1)))
	if err != nil {
		return err
	}
	other, err := receipt.IDs(client.Enqueue(ctx, message(0)))
	if err != nil {
		return err
	}
	if other[0] <= late[0] {
		return fmt.Errorf("PROMISE BROKEN: id %d was drawn before %d", late[0], other[0])
	}
	if _, err := l.start(ctx, 2*i); err != nil {
		return err
	}
	err = until(ctx, func() (gone bool, err error) { // the worker knows now that the group is done up to this id
		err = l.crew.db.pool.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM "+l.crew.table()+
			" WHERE queue = $1 AND group_id = $2 AND id = $3)", queue, groupID(l.first+i), other[0]).Scan(&gone)
		return gone, err
	})
	if err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	committed := time.Now()
	at, err := l.start(ctx, 2*i+1)
	l.found.record(at.Sub(committed))
	return err
}

// start waits for the start of a message's handler.
func (l *latecomers) start(ctx context.Context, n int) (time.Time, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("a late message was not found"))
	defer cancel()
	select {
	case at := <-l.starts[n]:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
}

func (l *latecomers) result() Result {
	r := Result{System: "pgfifo, late lower id", Params: map[string]any{"notifications": !l.crew.pollOnly}}
	r.latencies(l.found)
	r.Goal = atMost(1000, "max_ms")
	if l.crew.pollOnly {
		r.Goal = atMost(10_000, "max_ms")
	}
	r.more("messages", float64(l.found.TotalCount()))
	return r
}
