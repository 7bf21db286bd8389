package schedule

import (
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// suspectFor is how long a suspect runs until another one is tried beside it.
const suspectFor = tuning.Wait / 2

// Suspects lets all Turns of a process try one after the other the groups whose heads may be what has killed their
// workers. Most jobs that kill do it at once, so such a job costs no other suspect an attempt. A lane must not even
// claim another one meanwhile: after a death only the claims are left, also those of jobs that had not begun.
//
// The zero value is ready. With nil no group waits for another.
type Suspects struct {
	bells []bell // of the Turns

	mu    sync.Mutex
	turn  *Turn     // the last one that a lane got
	until time.Time // when another one may be tried
}

// enter gives the turn to a lane, or returns how long it has to wait. No other one is tried until it begins or leaves.
func (s *Suspects) enter(turn *Turn) (wait time.Duration) {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait := time.Until(s.until); wait > 0 {
		return min(wait, suspectFor)
	}
	s.turn, s.until = turn, time.Now().Add(tuning.Long) // it is to be claimed and marked: that waits for the server
	return 0
}

// begin says that the handler of the turn's job begins.
func (s *Suspects) begin(turn *Turn) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == turn {
		s.until = time.Now().Add(suspectFor)
	}
}

// leave says that the turn has killed nobody. If it was the last one, another one is tried at once.
func (s *Suspects) leave(turn *Turn) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != turn {
		return
	}
	s.turn, s.until = nil, time.Time{}
	for _, b := range s.bells {
		b.ring()
	}
}

// has reports whether the turn was the last one.
func (s *Suspects) has(turn *Turn) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn == turn
}

// free reports whether another one may be tried.
func (s *Suspects) free() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !time.Now().Before(s.until)
}
