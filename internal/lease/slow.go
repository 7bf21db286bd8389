package lease

import (
	"sync"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A slowSet has the groups whose jobs took long to settle: whatever a trigger of the user's waits for, say. It also has
// those that are suspected of that, because they were settled together with others and it took long. Neither is settled
// together with others. A set that is full begins anew. The zero value is ready.
type slowSet struct {
	mu  sync.Mutex
	all map[groups.Key]bool // false: suspected
}

// is reports whether a group was slow by itself.
func (s *slowSet) is(key groups.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[key]
}

// apart reports whether a group is to be settled by itself.
func (s *slowSet) apart(key groups.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.all[key]
	return known
}

func (s *slowSet) add(key groups.Key) { s.set(key, true) }

// suspect adds a group, unless it is there.
func (s *slowSet) suspect(key groups.Key) {
	if !s.apart(key) {
		s.set(key, false)
	}
}

func (s *slowSet) set(key groups.Key, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) >= tuning.Known {
		s.all = make(map[groups.Key]bool)
	}
	s.all[key] = slow
}

func (s *slowSet) remove(key groups.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, key)
}
