package fifo

import (
	"slices"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// What a seat holds, or is about to, and how an operator cancels that.

// A heldGroup is one that the seat holds, with the token of a session's claim, or 0.
type heldGroup struct {
	groups.Key
	token int64
}

// expect says which groups are about to be claimed.
func (s *seat) expect(next *lease.Request) {
	if next == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = append(s.awaited[:0], next.Key)
	for i := range next.With {
		s.awaited = append(s.awaited, next.With[i].Key)
	}
}

// have says whose jobs the seat holds from now on. Nil: nobody's.
func (s *seat) have(hold *lease.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	early := s.early
	s.held, s.canceled, s.nth, s.awaited, s.early = s.held[:0], nil, s.nth+1, s.awaited[:0], nil
	if hold == nil {
		return
	}
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
	paused bool
	token  int64
}

// A canceled group, or queue, and why its handlers are to end.
type canceled struct {
	key   groups.Key
	cause error
}

// ruled returns a function that takes the ruling on the seat's jobs of a group, or of a queue where the group id is
// empty. It returns nil if the seat holds no such job, and claims none just now. A ruling that comes before the claim's
// answer is kept for it, and one that comes when these jobs are settled does nothing. A handler that runs has its
// context ended, the others do not begin.
func (s *seat) ruled(key groups.Key) func(ruling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := func(group groups.Key) bool { return meant(group, key) }
	hold := s.nth // for which the ruling is
	switch {
	case slices.ContainsFunc(s.held, func(h heldGroup) bool { return named(h.Key) }):
	case slices.ContainsFunc(s.awaited, named):
		hold++
	default:
		return nil
	}
	return func(r ruling) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case s.nth < hold:
			s.early = append(s.early, r)
		case s.nth == hold && len(s.held) > 0:
			s.obey(r)
		}
	}
}

// obey cancels what the seat holds of a group, if the ruling says so; the caller has the lock. A token above the seat's
// own says that the group was taken from it.
func (s *seat) obey(r ruling) {
	c := canceled{r.key, ErrCanceled}
	taken := func(h heldGroup) bool { return h.Key == r.key && h.token != 0 && r.token > h.token }
	switch {
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
