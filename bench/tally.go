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
	counts      func(*fifo.Job) bool // called for each job that succeeds: is it to be counted? nil: yes
	count       atomic.Int64
	first, last atomic.Int64 // Unix nanoseconds
	reached     chan struct{}
	failed      chan error // the first attempt that did not succeed, which no handler here asks for
}

func newTally(goal int) *tally {
	return &tally{goal: int64(goal), reached: make(chan struct{}), failed: make(chan error, 1)}
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
		t.fail(fmt.Errorf("job %d was %v: %w", job.ID, outcome, err))
		return
	}
	if t.counts != nil && !t.counts(job) {
		return
	}
	if t.count.Add(1) == t.goal {
		t.last.Store(time.Now().UnixNano())
		close(t.reached)
	}
}

// fail ends the waiting.
func (t *tally) fail(err error) {
	select {
	case t.failed <- err:
	default:
	}
}

// err returns what has failed, if nobody has waited.
func (t *tally) err() error {
	select {
	case err := <-t.failed:
		return err
	default:
		return nil
	}
}

// took is the time from the start of the first handler to the commit of the last job.
func (t *tally) took() time.Duration { return time.Duration(t.last.Load() - t.first.Load()) }

// patience is how long nothing may happen.
const patience = time.Minute

// wait waits for the goal, and gives up if something fails or nothing happens.
func (t *tally) wait(ctx context.Context) error {
	tick := time.NewTicker(patience)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-t.reached:
			return nil
		case err := <-t.failed:
			return err
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

// every does something n times, each time after a pause.
func every(ctx context.Context, d time.Duration, n int, do func(i int) error) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}
