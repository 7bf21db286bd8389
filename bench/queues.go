package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// queues asks how long a job of one queue waits in a worker whose lanes another queue's backlog of long jobs keeps
// busy. The goals are that it waits for less than one of them, and for 20 ms with a lane kept for it.
type queues struct {
	backlog, groups, lanes int           // of the other queue
	takes                  time.Duration // each of its jobs
	every, measure         time.Duration // between the jobs of the queue that is looked at, and how long they are sent
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
	waits := newHistogram()
	var done atomic.Int64 // jobs of the backlog
	beside := func(_ context.Context, job *fifo.Job) error {
		waits.record(time.Since(job.EnqueuedAt)) // one machine, one clock
		return nil
	}
	var worker *fifo.Worker
	c := &crew{db: b.database, groups: s.groups, lanes: s.lanes}
	c.handler = func(ctx context.Context, _ *fifo.Job) error {
		if err := pause.For(ctx, s.takes); err != nil {
			return err
		}
		done.Add(1)
		return nil
	}
	c.also = func(w *fifo.Worker) {
		worker = w
		worker.HandleQueue("beside", fifo.Queue{Handler: beside, MinLanes: kept})
	}
	c.prepare()
	if err := c.fill(ctx, s.backlog); err != nil {
		return err
	}
	n := int(s.measure / s.every)
	err := c.run(ctx, nil, func(ctx context.Context) error {
		err := every(ctx, s.every, n, func(int) error {
			_, err := worker.Client.Enqueue(ctx, fifo.Message{Queue: "beside", GroupID: "g"})
			return err
		})
		if err != nil {
			return err
		}
		return until(ctx, func() (bool, error) { return waits.total() == int64(n), nil })
	})
	if err != nil {
		return err
	}
	r := Result{
		System: "pgfifo", Rate: float64(n) / s.measure.Seconds(), Params: map[string]any{
			"backlog": s.backlog, "groups": s.groups, "lanes": s.lanes, "kept": kept, "takes": s.takes.String(),
			"every": s.every.String(), "for": s.measure.String(),
		},
		Goal: atMost(float64(s.takes.Milliseconds()), "p99_ms"),
	}
	if kept > 0 {
		r.Goal = atMost(20, "p99_ms")
	}
	r.more("backlog_done", float64(done.Load()))
	r.latencies(waits)
	b.report(r)
	return nil
}
