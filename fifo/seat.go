package fifo

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pgfifo/pgfifo/groups"
)

// A seat is one lane's place in the crew. Its connection may change; one goroutine works on it.
type seat struct {
	crew *crew
	lane *groups.Lane // its own goroutine's; others see it through at

	at      atomic.Pointer[groups.Lane]
	beating atomic.Bool

	mu    sync.Mutex // what is below, which exists while a handler runs
	stop  context.CancelCauseFunc
	group groups.Key
}

// dial opens the seat's connection.
func (s *seat) dial(ctx context.Context) error {
	lane, err := s.crew.dialer.Dial(ctx)
	if err != nil {
		return err
	}
	s.lane = lane
	s.at.Store(lane)
	return nil
}

// run works jobs until ctx is done.
func (s *seat) run(ctx context.Context) {
	defer func() { _ = s.lane.Close() }()
	retry := newRedialer(s.crew.log, "lane")
	for ctx.Err() == nil {
		if s.lane.Closed() {
			if err := s.dial(ctx); err != nil {
				retry.wait(ctx, err)
				continue
			}
			retry.reset()
		}
		if turn := s.crew.turns.Next(ctx); turn != nil {
			s.work(ctx, turn)
		}
	}
}

// work claims a group and goes on from there for as long as there is a next one in line: settling one job and claiming
// the next is one round trip.
func (s *seat) work(ctx context.Context, turn *groups.Turn) (worked bool) {
	c := s.crew
	bg := context.WithoutCancel(ctx) // what is begun is ended, whatever happens to ctx
	hold, _, err := s.lane.Step(bg, nil, turn)
	if err != nil {
		s.broken(err)
		c.turns.Done(turn, groups.Outcome{Missed: true})
		return false
	}
	for {
		a := s.attempt(bg, turn, hold)
		worked = worked || a.job != nil
		next := s.next(ctx, turn, a)
		var settled bool
		if hold, settled, err = s.lane.Step(bg, a.calls, next); err != nil {
			s.broken(err)
		}
		s.settle(bg, a, settled, err)
		if next != turn || err != nil {
			c.turns.Done(turn, a.turn)
		}
		if err != nil && next != nil && next != turn {
			c.turns.Done(next, groups.Outcome{Missed: true})
		}
		if err != nil || next == nil {
			return worked
		}
		turn = next
	}
}

// next returns the group to claim with the next step, or nil to stop for now.
func (s *seat) next(ctx context.Context, turn *groups.Turn, a *attempt) *groups.Turn {
	if ctx.Err() != nil || s.lane.Closed() || s.crew.once {
		return nil
	}
	if !a.now {
		if next := s.crew.turns.TryNext(); next != nil {
			return next
		}
	}
	if s.crew.turns.Again(turn, a.turn) {
		return turn
	}
	return nil
}

// broken logs what ended a step. The connection is dialed again by run, if it was lost.
func (s *seat) broken(err error) {
	s.crew.log.Warn("pgfifo: statement of a lane failed", "closed", s.lane.Closed(), "error", err)
}

// watch lets others cancel the handler that is about to run; the returned function ends that.
func (s *seat) watch(key groups.Key, stop context.CancelCauseFunc) func() {
	s.mu.Lock()
	s.stop, s.group = stop, key
	s.mu.Unlock()
	return func() {
		s.mu.Lock()
		s.stop = nil
		s.mu.Unlock()
		stop(nil)
	}
}

// cancel cancels the running handler's context, if there is one.
func (s *seat) cancel(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop(cause)
	}
}

// abandon cuts the connection of a handler that does not end, so that its group is free.
func (s *seat) abandon() (groups.Key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return groups.Key{}, false
	}
	s.at.Load().Kill()
	return s.group, true
}

// beat sends a heartbeat for a handler that has been running for a while, and cancels it if the connection is lost. It
// does not wait for the answer.
func (s *seat) beat(ctx context.Context) {
	lane := s.at.Load()
	if lane == nil || lane.Running() < s.crew.worker.Session.HeartbeatInterval()/2 || !s.beating.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.beating.Store(false)
		if err := lane.Beat(ctx); err != nil && ctx.Err() == nil {
			s.cancel(err)
		}
	}()
}
