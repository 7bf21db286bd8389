package main

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// lookback asks whether groups are found behind another one's backlog. The same groups without a backlog before them
// are the other system.
type lookback struct {
	backlog       int // jobs of one group, sent first
	groups, lanes int // other groups, new in each round, with a job each that is sent behind those
	rounds        int // each with a new worker
}

// sqsLooks is how many messages SQS FIFO searches for groups, as its documentation says.
const sqsLooks = 120_000

func (s *lookback) run(ctx context.Context, b *bench) error {
	behind, alone := s.view(b, "behind", s.backlog), s.view(b, "alone", 0)
	for _, v := range []*outlook{behind, alone} {
		if err := v.prepare(ctx); err != nil {
			return err
		}
	}
	if s.backlog > sqsLooks {
		b.notef("SQS FIFO looks for groups among the first %d messages: it would find these after %d jobs of the "+
			"first group", sqsLooks, s.backlog-sqsLooks)
	}
	return hold(ctx, b, s.rounds, s.groups, []contest{
		{system: behind.system, to: alone.system, goal: atMost(1000, "max_ms"), fill: behind.tell},
		{system: alone.system, fill: alone.tell},
	})
}

// An outlook is what is seen of the other groups with one backlog before them, which is group 0.
type outlook struct {
	*lookback
	backlog int
	crew    *crew
	system  *system

	starts, earliest *histogram // of all others, and of each round's first
	before           int        // the most jobs of group 0 that were started before any of the others

	mu          sync.Mutex
	first       int           // the round's first group
	begin       time.Time     // of the round's worker
	ahead       int           // jobs of group 0 that started in the round
	found, last time.Duration // the first and the last of the others
}

func (s *lookback) view(b *bench, name string, backlog int) *outlook {
	v := &outlook{lookback: s, backlog: backlog, first: 1, starts: newHistogram(), earliest: newHistogram()}
	v.crew = &crew{db: b.database, groups: 1 + s.groups*s.rounds, lanes: s.lanes, handler: v.handle}
	v.system = &system{name: "pgfifo, " + name, work: v.round, params: map[string]any{
		"backlog": backlog, "groups": s.groups, "lanes": s.lanes,
	}}
	return v
}

func (v *outlook) prepare(ctx context.Context) error {
	if err := v.crew.own(ctx); err != nil {
		return err
	}
	v.crew.groups = 1 // the backlog's
	return errors.Join(v.crew.fill(ctx, v.backlog), v.crew.vacuum(ctx))
}

// handle notes the start of a job.
func (v *outlook) handle(_ context.Context, job *fifo.Job) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if job.GroupID == groupID(0) {
		v.ahead++
		return nil
	}
	v.last = time.Since(v.begin)
	v.found = cmp.Or(v.found, v.last)
	v.before = max(v.before, v.ahead)
	v.starts.record(v.last)
	return nil
}

// round sends the others, and runs a worker until it has worked them. It takes as long as the last one to start.
func (v *outlook) round(ctx context.Context, n int) (time.Duration, error) {
	if err := v.send(ctx, n); err != nil {
		return 0, err
	}
	y := newTally(n)
	y.counts = func(job *fifo.Job) bool { return job.GroupID != groupID(0) }
	v.begin, v.ahead, v.found = time.Now(), 0, 0
	if err := v.crew.shift(ctx, y, func(context.Context) error { return nil }); err != nil {
		return 0, err
	}
	v.earliest.record(v.found)
	return v.last, nil
}

func (v *outlook) send(ctx context.Context, n int) error {
	client := v.crew.client()
	defer func() { _ = client.Close() }()
	msgs := make([]fifo.Message, n)
	for i := range msgs {
		payload := binary.BigEndian.AppendUint64(nil, 0) // each group's only job
		msgs[i] = fifo.Message{Queue: queue, GroupID: groupID(v.first + i), Payload: payload}
	}
	v.first += n
	v.crew.filled += int64(len(msgs))
	if _, err := client.Enqueue(ctx, msgs...); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// tell has the times from the start of the worker, its connecting included, to that of each of the others. No rate:
// what is worked in them is what happened to be first.
func (v *outlook) tell(r *Result, _ rounds) {
	r.Rate = 0
	r.Extra = map[string]float64{"earliest_ms": v.earliest.millis(50), "of_first_group_before": float64(v.before)}
	r.latencies(v.starts)
}
