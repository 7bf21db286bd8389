package fifo

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A seat is one lane's place in the crew. Its connection may change; one goroutine works on it.
type seat struct {
	crew   *crew
	holder holder // its own goroutine's; others see it through at
	queue  *Queue // of the present attempt, or the last one: its own goroutine's, too

	at      atomic.Pointer[holder]  // nil: it has no connection
	doing   atomic.Pointer[Job]     // the job whose handler runs, or whose outcome is not told yet; or nil
	telling atomic.Pointer[attempt] // of which hooks or loggers are told; nil: of none
	ended   atomic.Bool             // it takes no more, and nothing of it is under way
	beating atomic.Bool
	begun   int // claims of which a handler began

	wake atomic.Pointer[context.CancelFunc] // nil unless the lane waits for work
	holding
}

// dial opens the seat's connection.
func (s *seat) dial(ctx context.Context) error {
	h, err := s.crew.source.holder(ctx)
	if err != nil {
		s.at.Store(nil)
		return err
	}
	s.holder = h
	s.at.Store(&h)
	s.crew.laneSetback.Store(nil)
	return nil
}

// connected reports whether the seat has a connection, as far as is known without asking the server.
func (s *seat) connected() bool {
	at := s.at.Load()
	return at != nil && !(*at).HungUp() && s.unanswered() == nil
}

// unanswered returns the seat's lane if the server has long owed it an answer, or nil. It is nil while a handler runs:
// that may leave an answer unread.
func (s *seat) unanswered() *lease.Lane {
	at := s.at.Load()
	if at == nil {
		return nil
	}
	lane := (*at).Lane()
	if lane == nil || lane.Running() > 0 || lane.Unanswered() < s.crew.set.bounds.Silence {
		return nil
	}
	return lane
}

// run works jobs until ctx is done.
func (s *seat) run(ctx context.Context) {
	defer func() { _ = s.holder.Close() }()
	retry := &redialer{log: s.crew.log, who: "lane", last: &s.crew.laneSetback, lanes: s.crew.unconnected}
	many := &s.crew.laneTrouble
	if s.holder.Lane() != nil { // else it has no connection of its own, so there may be thousands
		many = nil
	}
	troubled := false
	for ctx.Err() == nil {
		if s.holder.Lane().Spoiled() {
			_ = s.holder.Close()
		}
		if s.holder.Closed() {
			if err := s.dial(ctx); err != nil {
				retry.wait(ctx, err, &s.crew.laneTrouble)
				continue
			}
		}
		turn := s.idle(ctx)
		if turn == nil {
			_ = s.holder.Close() // its session was ended, unless ctx is done
			continue
		}
		_, err := s.work(ctx, turn)
		switch {
		case err == nil:
			retry.failed = 0
			troubled = false
		case lease.Blames(err) && !troubled:
			troubled = true // with one group, which is left alone for a while: others do not wait for it
		default:
			retry.wait(ctx, err, many)
		}
	}
}

// idle returns the next turn, or nil if ctx is done or the lane's session is found to have ended.
func (s *seat) idle(ctx context.Context) *schedule.Turn {
	ctx, wake := context.WithCancel(ctx)
	defer wake()
	s.wake.Store(&wake)
	defer s.wake.Store(nil)
	return s.crew.turns.Next(ctx)
}

// work claims a group and goes on from there for as long as there is a next one in line: settling one job and claiming
// the next is one round trip. It reports whether a handler ran, and an error if the database could not be used.
func (s *seat) work(ctx context.Context, turn *schedule.Turn) (ran bool, err error) {
	turns, queue := s.crew.turns, turn.Queue
	defer func() { turns.Free(queue) }()
	bg := context.WithoutCancel(ctx) // what is begun is ended, whatever happens to ctx
	claim := places(turn)
	hold, begun, err := s.step(bg, nil, turn.Request())
	if err != nil {
		s.giveUp(claim, begun, err)
		return false, err
	}
	defer s.have(nil)
	for {
		a := &attempt{seat: s, claim: claim}
		a.run(ctx, bg, hold)
		s.have(nil)
		ran = ran || a.ran
		next := s.upcoming(queue, claim, s.next(ctx, claim, a))
		wasPutBack := s.putBackIn(tuning.Wait, next)
		var settled bool
		hold, settled, err = s.step(bg, a.calls, next.request)
		gone := wasPutBack()
		recorded, tell := conclude(bg, a, settled, err)
		switch {
		case gone:
			s.letGo(bg, next, hold)
			next, hold = upcoming{}, nil
		case err != nil:
			s.notClaimed(next, settled, err)
			next = upcoming{}
		}
		if next.turn == nil {
			s.holder.Forfeit(bg) // before anybody is told, which may take long
		}
		if s.aside(bg, a, tell, claim, next, hold) {
			next = upcoming{}
		}
		s.doing.Store(nil)
		if next.turn != nil && next.kept == nil {
			turns.Settled(queue, next.turn)
			queue = next.turn.Queue
		}
		s.done(claim)
		if recorded { // the handler's doing
			err = nil
		}
		if next.turn == nil {
			return ran, err
		}
		claim = next.claim
	}
}

// step settles what the seat holds, and claims what is next.
func (s *seat) step(
	ctx context.Context, calls []lease.Call, next *lease.Request,
) (hold *lease.Hold, settled bool, err error) {
	s.sent()
	hold, settled, err = s.holder.Step(ctx, calls, next)
	s.have(hold)
	return hold, settled, err
}

// done ends the turns of a claim, except those that go on or were put back.
func (s *seat) done(claim []place) {
	for i := range claim {
		if p := &claim[i]; !p.kept {
			p.kept = true
			s.crew.turns.Done(p.turn, p.learned())
		}
	}
}

// places returns the places of a turn and those with it.
func places(turn *schedule.Turn) []place {
	turns := turn.All()
	claim := make([]place, len(turns))
	for i, t := range turns {
		claim[i].turn = t
	}
	return claim
}

// giveUp gives back what could not be claimed. begun says that the claim was under way: else nothing is known of its
// groups.
func (s *seat) giveUp(claim []place, begun bool, err error) {
	for i := range claim {
		p := &claim[i]
		switch {
		case !lease.Blames(err): // a table is locked, say
			p.outcome = schedule.Outcome{Missed: true}
		case !begun:
			p.outcome = schedule.Outcome{More: true}
		case len(claim) > 1: // one of them: each is claimed by itself next
			p.alone, p.outcome = true, schedule.Outcome{More: true}
		default:
			s.crew.trouble(p.turn.Key, err)
			p.outcome = schedule.Outcome{Trouble: true}
		}
		s.crew.turns.Done(p.turn, p.learned())
	}
}

// next returns the group to claim with the next step, or nil to stop for now.
func (s *seat) next(ctx context.Context, claim []place, a *attempt) *schedule.Turn {
	if ctx.Err() != nil || s.holder.Closed() || s.holder.Lane().Spoiled() || a.broken || s.crew.set.once {
		return nil
	}
	if !a.now {
		more := slices.ContainsFunc(claim, func(p place) bool { return p.outcome.More && p.outcome.DueIn <= 0 })
		next, stay := s.crew.turns.Swap(claim[0].turn, more)
		if next != nil || !stay {
			return next
		}
	}
	var first *schedule.Turn
	for i := range claim {
		p := &claim[i]
		switch {
		case first != nil:
			p.kept = s.crew.turns.Join(first, p.turn, p.learned())
		case s.crew.turns.Again(p.turn, p.learned()):
			first, p.kept = p.turn, true
		}
	}
	return first
}

// cut closes the seat's connection, whatever it is used for.
func (s *seat) cut() {
	if at := s.at.Load(); at != nil {
		(*at).Abandon()
	}
}

// beat sends a heartbeat for a handler that has been running for a while, and cancels it if the connection is lost. It
// does not wait for the answer. A lane that waits for work is only looked at.
func (s *seat) beat(ctx context.Context) {
	at := s.at.Load()
	if at == nil {
		return
	}
	if wake := s.wake.Load(); wake != nil && (*at).HungUp() {
		(*wake)()
	}
	hold, lane := s.number(), (*at).Lane()
	if lane == nil || lane.Running() < s.crew.set.bounds.Heartbeat/2 || !s.beating.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.beating.Store(false)
		// It cuts the connection before the handler is told. Told first, a handler in a statement would wait until pgx
		// has tried to cancel that on another connection, which takes seconds if the network is silent.
		if err := lane.Beat(ctx); err != nil && ctx.Err() == nil {
			s.cancelIf(hold, err) // else that handler has ended
		}
	}()
}
