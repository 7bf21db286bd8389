package lease

import (
	"sync"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A slowSet has the groups whose jobs took long to settle: whatever a trigger of the user's waits for, say. They are
// not settled together with others. A set that is full begins anew. The zero value is ready.
type slowSet struct {
	mu  sync.Mutex
	all map[groups.Key]bool
}

func (s *slowSet) is(key groups.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

func (s *slowSet) add(key groups.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= tuning.Known {
		s.all = make(map[groups.Key]bool)
	}
	s.all[key] = true
}

func (s *slowSet) remove(key groups.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}
