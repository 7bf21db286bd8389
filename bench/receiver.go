package main

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/fifo"
)

// A receiver is a system whose workers wait for messages. It sends a traffic, and returns when all of it was worked,
// with the time that this took.
type receiver struct {
	name    string
	params  map[string]any
	receive func(ctx context.Context, t *traffic) (time.Duration, error)
}

// producers bounds the connections that enqueue. An arrival that waits for one still counts from its own time.
const producers = 16

// pgfifo is the library as a receiver, with its defaults but for the number of lanes. call is how it is sent to.
func (s *latency) pgfifo(b *bench, call string) receiver {
	c := crew{db: b.database, groups: s.groups, lanes: s.lanes}
	receive := func(ctx context.Context, t *traffic) (time.Duration, error) {
		c := c
		c.handler = t.handle
		c.prepare()
		y := newTally(producers + len(t.passages))
		err := c.shift(ctx, y, func(ctx context.Context) error {
			if err := c.connected(ctx); err != nil {
				return err
			}
			c.filled = y.goal
			return s.send(ctx, b, t, y, call)
		})
		return y.took(), err
	}
	return receiver{name: "pgfifo " + call, params: c.params(), receive: receive}
}

// send enqueues the traffic with the library, when each producer has sent a message and the tally has counted those: a
// connection's first statements take longer.
func (s *latency) send(ctx context.Context, b *bench, t *traffic, y *tally, call string) error {
	enqueue, done, err := producing{call: call}.open(ctx, b.database, producers)
	if err != nil {
		return err
	}
	defer done()
	lines := make([]line, s.groups)
	var eg errgroup.Group
	for i := range producers {
		eg.Go(func() error { return lines[i%s.groups].enqueue(ctx, enqueue, i%s.groups, nil) })
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	if err := until(ctx, func() (bool, error) { return y.count.Load() >= producers, nil }); err != nil {
		return err
	}
	return t.sendEach(ctx, func(ctx context.Context, i int) error {
		group := t.passages[i].group
		return lines[group].enqueue(ctx, enqueue, group, binary.BigEndian.AppendUint64(nil, uint64(i)))
	})
}

// A line numbers the messages of a group in the order of their enqueues.
type line struct {
	mu   sync.Mutex
	next uint64
}

func (l *line) enqueue(ctx context.Context, enqueue enqueueFunc, group int, index []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	payload := append(binary.BigEndian.AppendUint64(nil, l.next), index...)
	_, err := enqueue(ctx, []fifo.Message{{Queue: queue, GroupID: groupID(group), Payload: payload}})
	l.next++
	return err
}

// inRiver is River as a receiver. It knows no groups.
func inRiver(r *riverQueue) receiver {
	return receiver{name: r.name(), receive: func(ctx context.Context, t *traffic) (time.Duration, error) {
		var warm atomic.Int64
		l := newRoll(0, len(t.passages))
		handle := func(number int64) {
			if number < 0 {
				warm.Add(1)
				return
			}
			t.start(&t.passages[number])
			l.call(number)
		}
		err := r.run(ctx, handle, func(ctx context.Context) error {
			var eg errgroup.Group // its connections, and its workers, before the first arrival
			for range producers {
				eg.Go(func() error { return r.insert(ctx, -1) })
			}
			if err := eg.Wait(); err != nil {
				return err
			}
			if err := until(ctx, func() (bool, error) { return warm.Load() >= producers, nil }); err != nil {
				return err
			}
			err := t.sendEach(ctx, func(ctx context.Context, i int) error { return r.insert(ctx, int64(i)) })
			if err != nil {
				return err
			}
			return l.tally.wait(ctx)
		})
		return l.took(), err
	}}
}
