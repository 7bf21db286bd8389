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

	mu       sync.Mutex              // what is below
	stop     context.CancelCauseFunc // nil unless a handler runs
	group    groups.Key
	shutting bool
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
		}
		turn := s.crew.turns.Next(ctx)
		if turn == nil {
			return
		}
		if _, err := s.work(ctx, turn); err != nil {
			retry.wait(ctx, err)
		} else {
			retry.reset()
		}
	}
}

// work claims a group and goes on from there for as long as there is a next one in line: settling one job and claiming
// the next is one round trip. It reports whether a handler ran, and an error if the database could not be used.
func (s *seat) work(ctx context.Context, turn *groups.Turn) (ran bool, err error) {
	turns := s.crew.turns
	bg := context.WithoutCancel(ctx) // what is begun is ended, whatever happens to ctx
	hold, _, err := s.lane.Step(bg, nil, turn)
	if err != nil {
		turns.Done(turn, groups.Outcome{Missed: true})
		return false, err
	}
	for {
		a := s.attempt(bg, turn, hold)
		ran = ran || a.ran
		next := s.next(ctx, turn, a)
		var settled bool
		hold, settled, err = s.lane.Step(bg, a.calls, next)
		recorded := s.settle(bg, a, settled, err)
		if next != turn || err != nil {
			turns.Done(turn, a.turn)
		}
		if err != nil {
			if next != nil && next != turn {
				turns.Done(next, groups.Outcome{Missed: true})
			}
			if recorded { // the handler's doing, not the database's
				err = nil
			}
			return ran, err
		}
		if next == nil {
			return ran, nil
		}
		turn = next
	}
}

// next returns the group to claim with the next step, or nil to stop for now.
func (s *seat) next(ctx context.Context, turn *groups.Turn, a *attempt) *groups.Turn {
	if ctx.Err() != nil || s.lane.Closed() || a.reclaim || s.crew.once {
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

// watch lets others cancel the handler that is about to run; the returned function ends that.
func (s *seat) watch(key groups.Key, stop context.CancelCauseFunc) func() {
	s.mu.Lock()
	s.stop, s.group = stop, key
	if s.shutting {
		stop(ErrShutdown)
	}
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

// shut cancels the running handler's context, and that of one whose claim is under way.
func (s *seat) shut() {
	s.mu.Lock()
	s.shutting = true
	s.mu.Unlock()
	s.cancel(ErrShutdown)
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
