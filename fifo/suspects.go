package fifo

import (
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// suspectFor is how long a job whose last attempt died runs in a worker before another such job begins there, unless
// it has ended before. One of them may be what killed the worker, and most that do kill it at once. So it takes no
// other one with it that was lost before.
const suspectFor = tuning.Wait / 2

// suspects lets jobs whose last attempt died begin one after the other in a worker. The zero value is ready.
type suspects struct {
	mu    sync.Mutex
	until time.Time
}

// enter returns how long the job has to wait; 0: it may begin, and no other one until begin or leave.
func (s *suspects) enter() (until time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if wait := s.until.Sub(now); wait > 0 {
		return s.until, min(wait, suspectFor)
	}
	s.until = now.Add(tuning.Long) // it is to be marked: that waits for the pool, and for the server
	return s.until, 0
}

// begin says that the handler of the job that has entered begins now. The next one may begin after the time that it
// returns.
func (s *suspects) begin() (until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Now().Add(suspectFor)
	return s.until
}

// leave says that the job that has entered or begun until then has killed nobody.
func (s *suspects) leave(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until.Equal(until) {
		s.until = time.Time{}
	}
}
