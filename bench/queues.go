package main

import (
	"context"
	"flag"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// queues asks how long a job of one queue waits in a worker whose lanes another queue's backlog of long jobs keeps
// busy. The goals are that it waits for less than one of them, and for 20 ms with a lane kept for it.
type queues struct {
	backlog, groups, lanes int
	takes, every, measure  time.Duration
}

func (s *queues) flags(f *flag.FlagSet) {
	f.IntVar(&s.backlog, "backlog", 10_000, "jobs of the other queue")
	f.IntVar(&s.groups, "groups", 5_000, "message groups that they are in")
	f.IntVar(&s.lanes, "lanes", 10, "jobs at once")
	f.DurationVar(&s.takes, "takes", time.Second, "how long each of them takes")
	f.DurationVar(&s.every, "every", 250*time.Millisecond, "time between the jobs of the queue that is looked at")
	f.DurationVar(&s.measure, "for", 40*time.Second, "how long they are sent")
}

func (s *queues) run(ctx context.Context, b *bench) error {
	for kept := range 2 {
		if err := s.meet(ctx, b, kept); err != nil {
			return err
		}
	}
	return nil
}

// meet measures with so many lanes kept for the queue that is looked at.
func (s *queues) meet(ctx context.Context, b *bench, kept int) error {
	if err := b.exec(ctx, "TRUNCATE pgfifo.jobs, pgfifo.queue_groups"); err != nil {
		return err
	}
	c := &crew{db: b.database, groups: s.groups, lanes: s.lanes}
	c.prepare()
	if err := c.fill(ctx, s.backlog); err != nil {
		return err
	}
	m := &meeting{queues: s, waits: newHistogram()}
	worker := &fifo.Worker{Concurrency: s.lanes}
	worker.Handle(queue, m.backlogged)
	worker.HandleQueue("beside", fifo.Queue{Handler: m.beside, MinLanes: kept})
	err := b.employ(ctx, worker, new(fifo.Config), nil, func(ctx context.Context, client *fifo.Client) error {
		return m.send(ctx, client)
	})
	if err != nil {
		return err
	}
	b.report(m.result(kept))
	return nil
}

func (m *meeting) result(kept int) Result {
	r := Result{
		System: "pgfifo", Rate: float64(m.waits.TotalCount()) / m.measure.Seconds(), Params: map[string]any{
			"backlog": m.backlog, "groups": m.groups, "lanes": m.lanes, "kept": kept, "takes": m.takes.String(),
			"every": m.every.String(), "for": m.measure.String(),
		},
		Extra: map[string]float64{"max_ms": millis(m.waits.Max()), "backlog_done": float64(m.done)},
	}
	r.quantiles(m.waits)
	r.Goal = atMost(float64(m.takes.Milliseconds()), "p99_ms")
	if kept > 0 {
		r.Goal = atMost(20, "p99_ms")
	}
	return r
}

// A meeting is the two queues in one worker.
type meeting struct {
	*queues
	mu    sync.Mutex
	waits *hdrhistogram.Histogram
	done  int // jobs of the backlog
}

func (m *meeting) backlogged(ctx context.Context, _ *fifo.Job) error {
	if err := pause.For(ctx, m.takes); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done++
	return nil
}

func (m *meeting) beside(_ context.Context, job *fifo.Job) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	record(m.waits, time.Since(job.EnqueuedAt)) // one machine, one clock
	return nil
}

// send sends a job each time, and waits until all have started.
func (m *meeting) send(ctx context.Context, client *fifo.Client) error {
	tick := time.NewTicker(m.every)
	defer tick.Stop()
	n := int64(m.measure / m.every)
	for range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if _, err := client.Enqueue(ctx, fifo.Message{Queue: "beside", GroupID: "g"}); err != nil {
			return err
		}
	}
	return until(ctx, func() (bool, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.waits.TotalCount() == n, nil
	})
}
