package fifo

import (
	"slices"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// What a seat holds, or is about to, and how an operator cancels that.

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

// have says whose jobs the seat holds from now on: those of the head's group, and in a batch of groups those of the
// others. Nil: none.
func (s *seat) have(hold *lease.Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding, s.others, s.tokens, s.canceled, s.nth = hold != nil, nil, nil, nil, s.nth+1
	early := s.early
	s.awaited, s.early = s.awaited[:0], nil
	if hold == nil {
		return
	}
	s.head, s.canceled = hold.Key, early
	if s.crew.keeper != nil {
		s.tokens = make(map[groups.Key]int64, 1)
		for h := range hold.Heads() {
			s.tokens[h.Key] = h.Token()
		}
	}
	for i := range hold.Rest {
		if key := hold.Rest[i].Key; key != hold.Key {
			s.others = append(s.others, key)
		}
	}
}

// canceler returns what cancels what the seat holds of the group, or for an empty group id of the queue, or is about to
// hold; nil if that is nothing. It is to be told whether that is paused, and the token of the group's last claim by a
// session: if that is not the seat's own, the group was taken from it. A handler that runs has its context ended, the
// others do not begin.
func (s *seat) canceler(key groups.Key) func(paused bool, token int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named := func(group groups.Key) bool { return meant(group, key) }
	held := s.holding && (named(s.head) || slices.ContainsFunc(s.others, named))
	if !held && !slices.ContainsFunc(s.awaited, named) {
		return nil
	}
	nth, own := s.nth, s.tokens[key]
	return func(paused bool, token int64) {
		lost := held && own != 0 && own != token
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case !paused && !lost:
			return
		case !held && s.nth == nth: // its claim is under way still
			s.early = append(s.early, key)
			return
		case held && s.nth != nth, !held && (s.nth != nth+1 || !s.holding):
			return
		}
		s.canceled = append(s.canceled, key)
		if s.stop == nil || !s.isCanceled(s.lent) {
			return
		}
		if lost {
			s.stop(ErrLost)
			return
		}
		s.stop(ErrCanceled)
	}
}

// meant reports whether a group is the one that is named, or is of the queue if no group is.
func meant(group, key groups.Key) bool {
	return group.Queue == key.Queue && (key.GroupID == "" || key.GroupID == group.GroupID)
}

// isCanceled reports whether one of the tasks is; the caller has the lock. The Jobs are the handler's: what is held
// says whose they are.
func (s *seat) isCanceled(tasks []task) bool {
	return len(s.canceled) > 0 && slices.ContainsFunc(tasks, func(t task) bool {
		return slices.ContainsFunc(s.canceled, func(key groups.Key) bool { return meant(t.held.Key, key) })
	})
}

// notToBegin reports whether a task is canceled already.
func (s *seat) notToBegin(t task) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.canceled) > 0 && s.isCanceled([]task{t})
}
