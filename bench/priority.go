package main

import (
	"context"
	"encoding/binary"
	"flag"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// priority asks how soon a message with a priority starts behind a backlog of groups, and one without. The goal is a
// second.
type priority struct {
	groups, lanes, messages int
	every, wait             time.Duration
}

func (s *priority) flags(f *flag.FlagSet) {
	f.IntVar(&s.groups, "groups", 1_000_000, "message groups of the backlog, with a job each")
	f.IntVar(&s.lanes, "lanes", 16, "jobs at once")
	f.IntVar(&s.messages, "messages", 50, "messages of each kind")
	f.DurationVar(&s.every, "every", 100*time.Millisecond, "time between them")
	f.DurationVar(&s.wait, "wait", 5*time.Second, "how long to wait for the last of a kind")
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
	if err := b.exec(ctx, "VACUUM ANALYZE pgfifo.jobs"); err != nil {
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
	return c.run(ctx, &fifo.Config{}, func(ctx context.Context) error {
		if err := until(ctx, func() (bool, error) { return others.Load() > int64(s.lanes), nil }); err != nil {
			return err
		}
		for i := range kinds {
			if err := s.send(ctx, b, c, i, starts[i*s.messages:(i+1)*s.messages]); err != nil {
				return err
			}
		}
		return nil
	})
}

// send sends the messages of a kind, and reports how soon they have started.
func (s *priority) send(ctx context.Context, b *bench, c *crew, kind int, starts []atomic.Int64) error {
	k := kinds[kind]
	client := fifo.Open(c.db.pool, &fifo.Config{PollOnly: k.pollOnly})
	defer func() { _ = client.Close() }()
	sent := make([]time.Time, s.messages)
	for i := range sent {
		m := fifo.Message{
			Queue: queue, GroupID: groupID(s.groups + kind*s.messages + i), Priority: k.priority,
			Payload: binary.BigEndian.AppendUint64(nil, 0),
		}
		if _, err := client.Enqueue(ctx, m); err != nil {
			return err
		}
		sent[i] = time.Now()
		if err := pause.For(ctx, s.every); err != nil {
			return err
		}
	}
	found, begun := newHistogram(), 0
	for end := time.Now().Add(s.wait); begun < s.messages && time.Now().Before(end); {
		begun = 0
		for i := range starts {
			if starts[i].Load() > 0 {
				begun++
			}
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	for i := range starts {
		if at := starts[i].Load(); at > 0 {
			record(found, max(time.UnixMicro(at).Sub(sent[i]), 0))
		} else {
			record(found, s.wait) // at the least
		}
	}
	s.report(b, kind, found, begun)
	return nil
}

func (s *priority) report(b *bench, kind int, found *hdrhistogram.Histogram, begun int) {
	k := kinds[kind]
	r := Result{System: "pgfifo", Params: map[string]any{
		"priority": k.priority, "notifications": !k.pollOnly, "groups": s.groups, "lanes": s.lanes,
	}}
	r.Extra = map[string]float64{
		"begun_share": float64(begun) / float64(s.messages), "max_ms": millis(found.Max()),
	}
	r.quantiles(found)
	if k.priority > 0 {
		r.Goal = atMost(1000, "max_ms")
	}
	b.report(r)
}
