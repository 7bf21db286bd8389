package fifo

import (
	"context"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// An upcoming is what a seat claims in the round trip that settles the jobs of the turn before. If a lock, a trigger of
// the user's or a hook keeps those waiting, what is upcoming does not wait with them: it is put back, for other workers
// and for this one's other seats.
type upcoming struct {
	turn    *schedule.Turn // nil: nothing is
	claim   []place
	request *lease.Request
	behind  string  // the queue that the seat has worked
	kept    []place // the places of the turn before, if it is the same groups' again
}

func (s *seat) upcoming(behind string, worked []place, turn *schedule.Turn) (u upcoming) {
	if turn == nil {
		return upcoming{}
	}
	u = upcoming{turn: turn, claim: places(turn), request: turn.Request(), behind: behind}
	if slices.ContainsFunc(worked, func(p place) bool { return p.turn == turn }) {
		u.kept = worked
	}
	return u
}

// notClaimed gives back what could not be claimed. The same groups are given back with the places that they had.
func (s *seat) notClaimed(u upcoming, begun bool, err error) {
	for i := range u.kept {
		u.kept[i].kept = false
	}
	if u.turn != nil && u.kept == nil {
		s.crew.turns.Stay(u.behind, u.turn)
		s.giveUp(u.claim, begun, err)
	}
}

// putBack gives what is upcoming to others. The same groups are given back with what is known of them by now.
func (s *seat) putBack(u upcoming) {
	for i := range u.kept {
		if p := &u.kept[i]; p.kept {
			o := p.learned()
			o.Finished = 0 // Again knows of that; by now a lower id may have come
			s.crew.turns.Done(p.turn, o)
		}
	}
	if u.turn != nil && u.kept == nil {
		s.crew.turns.Return(u.behind, u.turn)
	}
}

// putBackIn calls putBack after a while, unless done is called before; done reports whether it did. It does nothing for
// the same groups, which are locked as long as the settlement waits. Call done once.
func (s *seat) putBackIn(wait time.Duration, u upcoming) (done func() bool) {
	if u.turn == nil || u.kept != nil {
		return func() bool { return false }
	}
	put := make(chan struct{})
	timer := time.AfterFunc(wait, func() {
		s.putBack(u)
		close(put)
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		<-put
		return true
	}
}

// letGo gives back what is claimed and has not begun, if anything is, also if the session is gone. A head whose last
// worker has died with it keeps the evidence of that.
func (s *seat) letGo(ctx context.Context, u upcoming, hold *lease.Hold) {
	if hold == nil {
		return
	}
	defer s.have(nil)
	lost, err := s.holder.Lost(ctx)
	if err == nil && len(lost) == 0 {
		_, _, err = s.holder.Step(ctx, nil, nil)
	}
	if err != nil || len(lost) > 0 {
		deal(u.claim, hold)
		s.unbegun(ctx, u.claim, lost)
	}
}

// aside calls tell, which tells of an attempt, while what is upcoming is held. If tell takes long, what is upcoming is
// put back: a pause may have come since the claim looked, and if its session ended now, an attempt would be counted of
// a job that has not begun. The groups that were worked go on, too. Then aside waits all the same, and reports true. A
// tell whose goroutine is ended is called again.
func (s *seat) aside(
	ctx context.Context, a *attempt, tell func(), worked []place, u upcoming, hold *lease.Hold,
) (late bool) {
	if tell == nil {
		return false
	}
	slow := s.crew.worker.Client.hooks.any(func(h Hooks) bool { return h.Settled != nil }) ||
		slices.ContainsFunc(a.results, func(r result) bool { return r.outcome != Succeeded }) // which is logged
	if !slow {
		s.holder.Lane().Aside(tell)
		return false
	}
	s.telling.Store(a)
	defer s.telling.Store(nil)
	done := make(chan struct{})
	go untilReturned(tell, done)
	s.holder.Lane().Aside(func() { late = !within(tuning.Look, done) })
	if late {
		s.letGo(ctx, u, hold)
		s.putBack(u)
		s.done(worked)
		<-done
	}
	return late
}

// unbegun gives back what was claimed in a session that has ended before a handler began: that is no attempt. Those
// that may have been lost before keep the evidence of that.
func (s *seat) unbegun(ctx context.Context, claim []place, lost []*lease.Held) {
	_ = s.holder.Close()
	goOn(claim)
	for i := range claim {
		h := claim[i].held
		if h == nil || slices.Contains(lost, h) {
			continue
		}
		if err := s.holder.Record(ctx, h); err != nil && !lease.Refused(err) {
			return // nobody can be told now
		}
	}
}
