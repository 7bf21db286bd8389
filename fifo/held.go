package fifo

import (
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// What a seat holds, or is about to, and how an operator cancels that.

// A heldGroup is one that the seat holds, with the token of a session's claim, or 0.
type heldGroup struct {
	groups.Key
	token int64
}

// have says whose jobs the seat holds from now on. Nil: nobody's.
func (s *seat) have(hold *lease.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	early := s.early
	s.held, s.canceled, s.nth, s.claiming, s.early = s.held[:0], nil, s.nth+1, false, nil
	for h := range hold.Heads() {
		s.held = append(s.held, heldGroup{h.Key, h.Token()})
	}
	for _, r := range early {
		s.obey(r)
	}
}

// A ruling is what the database says of a group, or with an empty group id of a queue, that an operator may have
// canceled: whether it is paused, and the token of the group's last claim by a session.
type ruling struct {
	key    groups.Key
	asked  time.Time // before the database was
	paused bool
	token  int64
}

// A canceled group, or queue, and why its handlers are to end.
type canceled struct {
	key   groups.Key
	cause error
}

// hear has the seat obey a ruling. One that comes before the answer to a claim is kept for that. A handler that runs
// has its context ended, the others do not begin.
func (s *seat) hear(r ruling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.claimed.Before(r.asked): // the claim has seen that by itself
	case s.claiming:
		s.early = append(s.early, r)
	default:
		s.obey(r)
	}
}

// obey cancels what the seat holds of a group, or of a queue where the group id is empty, if the ruling says so; the
// caller has the lock. A token above the seat's own says that the group was taken from it.
func (s *seat) obey(r ruling) {
	c := canceled{r.key, ErrCanceled}
	taken := func(h heldGroup) bool { return h.Key == r.key && h.token != 0 && r.token > h.token }
	switch {
	case !s.holds(r.key):
		return
	case slices.ContainsFunc(s.held, taken):
		c.cause = ErrLost
	case !r.paused:
		return
	}
	s.canceled = append(s.canceled, c)
	if s.stop != nil {
		if cause := s.cause(s.lent); cause != nil {
			s.stop(cause)
		}
	}
}

// holds reports whether the seat holds a group, or one of a queue; the caller has the lock.
func (s *seat) holds(key groups.Key) bool {
	return slices.ContainsFunc(s.held, func(h heldGroup) bool { return meant(h.Key, key) })
}

// concerned reports whether the seat holds such a group, or may with the answer to its claim.
func (s *seat) concerned(key groups.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claiming || s.holds(key)
}

// meant reports whether a group is the one that is named, or is of the queue if no group is.
func meant(group, key groups.Key) bool {
	return group.Queue == key.Queue && (key.GroupID == "" || key.GroupID == group.GroupID)
}

// cause returns why one of the tasks is canceled, or nil; the caller has the lock. The Jobs are the handler's: what is
// held says whose they are.
func (s *seat) cause(tasks []task) error {
	for _, c := range s.canceled {
		if slices.ContainsFunc(tasks, func(t task) bool { return meant(t.held.Key, c.key) }) {
			return c.cause
		}
	}
	return nil
}

// notToBegin reports whether a task is canceled already.
func (s *seat) notToBegin(t task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.canceled) > 0 && s.cause([]task{t}) != nil
}
