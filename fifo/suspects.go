package fifo

import (
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// suspectFor is how long a job whose last attempt died runs in a worker before another such job begins there, unless
// it has ended before. One of them may be what killed the worker, and most that do kill it at once. So it takes no
// other one with it that was lost before.
const suspectFor = tuning.Wait / 2

// suspects lets jobs whose last attempt died begin one after the other in a worker. The zero value is ready.
type suspects struct {
	mu      sync.Mutex
	until   time.Time
	waiting map[groups.Key]func() // what has a group tried again
}

// enter returns how long the job of the group has to wait; 0: it may begin, and no other one until begin or leave.
// again is called when another one has left, for a few of those that wait: it need not come.
func (s *suspects) enter(key groups.Key, again func()) (until time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if wait := s.until.Sub(now); wait > 0 {
		if s.waiting == nil {
			s.waiting = make(map[groups.Key]func())
		}
		s.waiting[key] = again
		return s.until, min(wait, suspectFor)
	}
	delete(s.waiting, key)
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
	for _, again := range s.left(until) {
		again()
	}
}

// left returns what has a few of those tried again that wait: of some nothing may come.
func (s *suspects) left(until time.Time) (few []func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.until.Equal(until) {
		return nil
	}
	s.until = time.Time{}
	for key, again := range s.waiting {
		if len(few) == tuning.Few {
			break
		}
		few = append(few, again)
		delete(s.waiting, key)
	}
	return few
}
