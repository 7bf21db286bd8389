package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// A tally counts the jobs of one run of a worker, through its hooks.
type tally struct {
	goal        int64
	count       atomic.Int64
	first, last atomic.Int64 // Unix nanoseconds
	reached     chan struct{}
	unsettled   chan error // an attempt that did not succeed, which no handler here asks for
}

func newTally(goal int) *tally {
	return &tally{goal: int64(goal), reached: make(chan struct{}), unsettled: make(chan error, 1)}
}

// hooks are what has a worker's jobs counted.
func (t *tally) hooks() []fifo.Hooks { return []fifo.Hooks{{Job: t.begin, Settled: t.settled}} }

func (t *tally) begin(ctx context.Context, _ *fifo.Job) (context.Context, func(error)) {
	if t.first.Load() == 0 {
		t.first.CompareAndSwap(0, time.Now().UnixNano())
	}
	return ctx, nil
}

func (t *tally) settled(_ context.Context, job *fifo.Job, outcome fifo.Outcome, err error) {
	if outcome != fifo.Succeeded {
		select {
		case t.unsettled <- fmt.Errorf("job %d was %v: %w", job.ID, outcome, err):
		default:
		}
		return
	}
	if t.count.Add(1) == t.goal {
		t.last.Store(time.Now().UnixNano())
		close(t.reached)
	}
}

// took is the time from the start of the first handler to the commit of the last job.
func (t *tally) took() time.Duration { return time.Duration(t.last.Load() - t.first.Load()) }

// wait waits for the goal, and gives up if something fails or nothing happens.
func (t *tally) wait(ctx context.Context, failed <-chan struct{}) error {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-t.reached:
			return nil
		case err := <-t.unsettled:
			return err
		case <-failed:
			return nil // the ledger has the error
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		now := t.count.Load()
		if now == before {
			return fmt.Errorf("stuck after %d of %d jobs: nothing for %v", now, t.goal, patience)
		}
		before = now
	}
}

// until asks again and again, for as long as patience lasts.
func until(ctx context.Context, ask func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited for %v", patience))
	defer cancel()
	for {
		if ok, err := ask(); ok || err != nil {
			return err
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}
