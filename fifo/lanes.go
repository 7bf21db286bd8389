package fifo

import (
	"fmt"
	"math"
	"sync"

	"github.com/pgfifo/pgfifo/internal/schedule"
)

// laneBounds are how many lanes each queue keeps and may have. They may change while the worker runs.
type laneBounds struct {
	mu      sync.Mutex
	of      map[string]schedule.Lanes
	running []*crew
}

func validLanes(minLanes, maxLanes int) error {
	if maxLanes > 0 && minLanes > maxLanes {
		return fmt.Errorf("MinLanes %d is over MaxLanes %d", minLanes, maxLanes)
	}
	return nil
}

func (l *laneBounds) set(queue string, minLanes, maxLanes int) {
	if l.of == nil {
		l.of = make(map[string]schedule.Lanes)
	}
	l.of[queue] = schedule.Lanes{Min: max(minLanes, 0), Max: max(maxLanes, 0)}
}

func (l *laneBounds) change(queue string, minLanes, maxLanes int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.of[queue]
	l.set(queue, minLanes, maxLanes)
	for _, c := range l.running {
		if c.set.queues[queue] == nil {
			continue
		}
		if err := l.check(c.set); err != nil {
			l.of[queue] = before
			return err
		}
		c.turns.SetLanes(queue, l.of[queue])
	}
	return nil
}

// fit is check, before a crew dials.
func (l *laneBounds) fit(set settings) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.check(set)
}

// check returns an error if there are too few lanes for the queues.
func (l *laneBounds) check(set settings) error {
	kept, of := 0, set.kind.concurrency
	for _, q := range set.names {
		kept += min(l.of[q].Min, math.MaxInt-kept)
	}
	if kept > set.lanes {
		return fmt.Errorf("%w: the queues %q keep %d lanes together, and %s is %d",
			ErrInvalidWorker, set.names, kept, of, set.lanes)
	}
	for _, q := range set.names {
		if kept == set.lanes && l.of[q].Min == 0 {
			return fmt.Errorf("%w: all %d lanes of %s are kept for other queues than %q",
				ErrInvalidWorker, set.lanes, of, q)
		}
	}
	return nil
}

// crews returns those that run.
func (l *laneBounds) crews() []*crew {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running
}

// begin applies the bounds to crews that begin to run; the returned function ends that.
func (l *laneBounds) begin(crews []*crew) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range crews {
		if err := l.check(c.set); err != nil {
			return nil, err
		}
	}
	l.running = crews
	for _, c := range crews {
		c.turns.SetConcurrency(c.set.lanes)
		for _, q := range c.set.names {
			c.turns.SetLanes(q, l.of[q])
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.running = nil
	}, nil
}
