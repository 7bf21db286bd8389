package main

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// priority asks how soon a message with a priority starts behind a backlog of groups with a job each, and one without.
// The goal is a second.
type priority struct {
	groups, lanes, messages int           // of each kind
	every, wait             time.Duration // between the messages, and for the last of a kind
}

// kinds are how messages are sent, in the order of their groups' numbers.
var kinds = []struct {
	priority int
	pollOnly bool
}{{1, false}, {1, true}, {0, false}}

func (s *priority) run(ctx context.Context, b *bench) error {
	c := &crew{db: b.database, groups: s.groups + len(kinds)*s.messages, lanes: s.lanes}
	c.prepare()
	if err := c.fill(ctx, s.groups); err != nil {
		return err
	}
	if err := c.vacuum(ctx); err != nil {
		return err
	}
	starts := make([]atomic.Int64, len(kinds)*s.messages) // in microseconds since 1970
	var others atomic.Int64
	c.handler = func(_ context.Context, job *fifo.Job) error {
		if g, err := groupNumber(job.GroupID); err == nil && g >= s.groups {
			starts[g-s.groups].Store(time.Now().UnixMicro())
		} else {
			others.Add(1)
		}
		return nil
	}
	return c.run(ctx, nil, func(ctx context.Context) error {
		if err := until(ctx, func() (bool, error) { return others.Load() > int64(s.lanes), nil }); err != nil {
			return err
		}
		for i := range kinds {
			if err := s.send(ctx, b, i, starts[i*s.messages:(i+1)*s.messages]); err != nil {
				return err
			}
		}
		return nil
	})
}

// send sends the messages of a kind, and reports how soon they have started.
func (s *priority) send(ctx context.Context, b *bench, kind int, starts []atomic.Int64) error {
	k := kinds[kind]
	client := fifo.Open(b.pool, &fifo.Config{PollOnly: k.pollOnly})
	defer func() { _ = client.Close() }()
	sent := make([]time.Time, s.messages)
	err := every(ctx, s.every, s.messages, func(i int) error {
		_, err := client.Enqueue(ctx, fifo.Message{
			Queue: queue, GroupID: groupID(s.groups + kind*s.messages + i), Priority: k.priority,
			Payload: binary.BigEndian.AppendUint64(nil, 0),
		})
		sent[i] = time.Now()
		return err
	})
	if err != nil {
		return err
	}
	for i, end := 0, time.Now().Add(s.wait); i < len(starts) && time.Now().Before(end); {
		if starts[i].Load() > 0 {
			i++
		} else if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	r := Result{System: "pgfifo", Params: map[string]any{
		"priority": k.priority, "notifications": !k.pollOnly, "groups": s.groups, "lanes": s.lanes,
	}}
	found, begun := newHistogram(), 0
	for i := range starts {
		if at := starts[i].Load(); at > 0 {
			found.record(time.UnixMicro(at).Sub(sent[i]))
			begun++
		} else {
			found.record(s.wait) // at the least
		}
	}
	r.more("begun_share", float64(begun)/float64(s.messages))
	r.latencies(found)
	if k.priority > 0 {
		r.Goal = atMost(1000, "max_ms")
	}
	b.report(r)
	return nil
}
