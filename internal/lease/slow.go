package lease

import (
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A slowSet has the groups whose jobs take long to settle: because of what a trigger of the user's waits for, say. It
// also has those that are in doubt, because they were settled together with others and it took long. A group that is
// slow is settled by itself. Of those that came into doubt together, a few are at first. If one of them is quick, some
// other group is to blame: then each of the others is settled by itself, once. If none is, it is the transactions that
// take long (their commits, a trigger of the statement's): then the set begins anew, as it does when it is full. The
// zero value is ready.
type slowSet struct {
	mu    sync.Mutex
	all   map[groups.Key]*doubt // nil: slow
	usual time.Duration         // what a transaction takes, however little it settles, if that is long
}

// A doubt is about the groups whose jobs were settled in one transaction.
type doubt struct {
	tried int  // how many were to be settled by themselves
	slow  int  // how many of them took long
	quick bool // one of them did not
}

// is reports whether a group was slow by itself.
func (s *slowSet) is(key groups.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.all[key]
	return known && of == nil
}

// apart reports whether a group is to be settled by itself now. Call tookAlone then.
func (s *slowSet) apart(key groups.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, known := s.all[key]
	switch {
	case !known || of == nil:
		return known
	case of.quick:
		return true
	}
	of.tried++
	return of.tried <= tuning.Few
}

// add adds a group that is slow.
func (s *slowSet) add(key groups.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, nil)
}

func (s *slowSet) set(key groups.Key, of *doubt) {
	if s.all == nil || len(s.all) >= tuning.Known {
		s.all = make(map[groups.Key]*doubt)
	}
	s.all[key] = of
}

// long reports whether a transaction that settled n jobs has taken long because of what they are.
func (s *slowSet) long(n int, took time.Duration) bool {
	s.usual = min(s.usual, took)
	return took-s.usual >= tuning.Slow+time.Duration(n)*tuning.Gap
}

// tookTogether says how long it took to settle jobs of several groups in one transaction.
func (s *slowSet) tookTogether(some []*settlement, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.long(len(some), took) {
		return
	}
	of := new(doubt)
	for _, one := range some {
		if old, known := s.all[one.head.Key]; !known || old != nil {
			s.set(one.head.Key, of)
		}
	}
}

// tookAlone says how long it took to settle n jobs of a group in a transaction of its own.
func (s *slowSet) tookAlone(key groups.Key, n int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	long := s.long(n, took)
	of, known := s.all[key]
	switch {
	case !known:
	case long:
		s.all[key] = nil
	default:
		delete(s.all, key)
	}
	switch {
	case of == nil:
	case !long:
		of.quick = true
	default:
		of.slow++
		if of.slow == tuning.Few && !of.quick {
			s.usual, s.all = took, nil
		}
	}
}
