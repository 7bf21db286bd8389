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

// pgfifo is the library as a receiver, with its defaults but for the number of lanes. call is how it is sent to.
func (s *latency) pgfifo(b *bench, call string) receiver {
	params := map[string]any{"groups": s.groups, "lanes": s.lanes}
	return receiver{
		name: "pgfifo " + call, params: params,
		receive: func(ctx context.Context, arrivals []arrival) (time.Duration, error) {
			c := &crew{db: b.database, groups: s.groups, lanes: s.lanes}
			c.handler = func(_ context.Context, job *fifo.Job) error {
				arrivals[binary.BigEndian.Uint64(job.Payload[8:])].start()
				return nil
			}
			c.prepare()
			t := newTally(len(arrivals))
			err := c.run(ctx, &fifo.Config{Hooks: t.hooks()}, func(ctx context.Context) error {
				if err := c.connected(ctx, 2); err != nil {
					return err
				}
				if err := s.send(ctx, b, arrivals, call); err != nil {
					return err
				}
				c.filled = int64(len(arrivals))
				return t.wait(ctx, c.failed)
			})
			if err != nil {
				return 0, err
			}
			return t.took(), c.audit(ctx)
		},
	}
}

// send enqueues the arrivals with the library.
func (s *latency) send(ctx context.Context, b *bench, arrivals []arrival, call string) error {
	enqueue, done, err := producing{call: call}.open(ctx, b.database, producers)
	if err != nil {
		return err
	}
	defer done()
	lines := make([]line, s.groups)
	return sendAll(ctx, arrivals, func(ctx context.Context, a *arrival, i int) error {
		return lines[a.group].enqueue(ctx, enqueue, a, i)
	})
}

// A line numbers the messages of a group in the order of their enqueues.
type line struct {
	mu   sync.Mutex
	next uint64
}

func (l *line) enqueue(ctx context.Context, enqueue enqueueFunc, a *arrival, index int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, l.next), uint64(index))
	_, err := enqueue(ctx, []fifo.Message{{Queue: queue, GroupID: groupID(a.group), Payload: payload}})
	a.sent = time.Now()
	l.next++
	return err
}

// inRiver is River as a receiver. It knows no groups.
func inRiver(r *riverQueue) receiver {
	return receiver{name: r.name(), receive: func(ctx context.Context, arrivals []arrival) (time.Duration, error) {
		var warm atomic.Int64
		l := newRoll(0, len(arrivals))
		handle := func(number int64) {
			if number < 0 {
				warm.Add(1)
				return
			}
			arrivals[number].start()
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
			err := sendAll(ctx, arrivals, func(ctx context.Context, a *arrival, i int) error {
				err := r.insert(ctx, int64(i))
				a.sent = time.Now()
				return err
			})
			if err != nil {
				return err
			}
			return l.tally.wait(ctx, nil)
		})
		return l.took(), err
	}}
}
