package main

import (
	"context"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A stint is a handler that waits, for as long as it should on average. Timers are late, in an idle process by up to a
// millisecond: as they are, 5 ms would be 5.5, and one would measure timers. What they were late lately is taken off.
type stint struct {
	want  time.Duration
	first func() // called once, when the first one begins; may be nil

	mu    sync.Mutex
	late  float64 // moving average, in nanoseconds
	total time.Duration
	count int64
}

// lateness is the weight of the last wait in the average.
const lateness = 1.0 / 32

func (s *stint) work(ctx context.Context) error {
	s.mu.Lock()
	if s.first != nil {
		s.first()
		s.first = nil
	}
	asked := max(s.want-time.Duration(s.late), s.want/2)
	s.mu.Unlock()
	begin := time.Now()
	err := pause.For(ctx, asked)
	took := time.Since(begin)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late += (float64(took-asked) - s.late) * lateness
	s.total += took
	s.count++
	return err
}

// mean is how long they really waited.
func (s *stint) mean() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total / time.Duration(max(s.count, 1))
}
