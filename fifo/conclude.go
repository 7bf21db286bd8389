package fifo

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
)

// conclude says what became of an attempt whose step is done; tell has hooks, counters and the log told, unless it is
// nil. If the step failed but the server is there, what failed is the handler's doing (it ended the transaction, or a
// deferred constraint stopped the commit) or that of the group's rows (a trigger of the user's): that is recorded as a
// failed attempt, and conclude reports recorded.
func (s *seat) conclude(
	ctx context.Context, a *attempt, claim []place, settled bool, err error,
) (recorded bool, tell func()) {
	if len(a.results) == 0 {
		return false, nil
	}
	switch {
	case a.broken:
		recorded = s.mend(ctx, a, claim)
	case settled || a.results[0].outcome == Unknown: // and so are all of them: see revoke
	case errors.Is(err, lease.ErrGivenBack):
		a.revoke(Returned, KindError, fmt.Errorf("fifo: the jobs could not be completed: %w", err))
		a.oneByOne()
		recorded = true
	case errors.Is(err, lease.ErrUnsettled):
		a.unsettle(err)
		recorded = s.mend(ctx, a, claim)
	case lease.Refused(err):
		recorded = s.refuse(ctx, a, claim, fmt.Errorf("fifo: the job could not be completed: %w", err))
	default:
		a.revoke(Unknown, KindLost, err)
	}
	told, called := false, 0
	return recorded, func() {
		if !told {
			told = true
			for i := range a.results {
				s.tell(ctx, &a.results[i])
			}
			s.forwarded(a)
		}
		s.crew.worker.Client.hookSettled(ctx, a.results, &called)
	}
}

// refuse deals with jobs that could not be completed although their handlers succeeded. One has failed; of several it
// is not known which, so they run again one by one. Attempts that were found lost stay what they are, and what was to
// be given back is given back.
func (s *seat) refuse(ctx context.Context, a *attempt, claim []place, why error) bool {
	if !a.ran {
		return s.mend(ctx, a, claim)
	}
	returned := a.results[0].outcome == Returned // given back: it has not failed
	a.revoke(Returned, KindError, why)
	switch {
	case len(a.results) > 1:
		a.oneByOne()
	case !returned:
		a.results[0].outcome = Retried // what becomes of it, failCall says
	}
	return s.mend(ctx, a, claim)
}

// tell tells the counters and the log what became of a job.
func (s *seat) tell(ctx context.Context, r *result) {
	c := s.crew
	c.worker.stats.outcomes[r.outcome].Add(1)
	if r.outcome.recorded() && errors.Is(r.failure.err, diedError{}) {
		c.worker.stats.lost.Add(1)
	}
	if r.outcome != Succeeded {
		c.teller.log(ctx, c.log, r)
	}
	if r.outcome == Unknown && !errors.Is(r.failure.err, ErrAbandoned) {
		c.left.lose(r.job)
	}
}

// forwarded tells workers of jobs that have moved to the queue of dead letters: as of an enqueue, from here on.
func (s *seat) forwarded(a *attempt) {
	for i := range a.results {
		if r := &a.results[i]; r.outcome == Buried && r.moved != "" {
			s.crew.worker.Client.announce.say(func(h hints) { h.add(r.moved, r.job.GroupID, 0, false) })
		}
	}
}

// mend records on another connection what became of groups whose transaction was lost while the worker lives: a failed
// attempt, or that the jobs are given back. It reports whether it could. A group of which the server refuses that, too,
// is left alone for a while, and keeps the evidence of an attempt that was found lost. If there was no answer, whoever
// claims the group next finds that the transaction was lost, and counts that.
func (s *seat) mend(ctx context.Context, a *attempt, claim []place) bool {
	all := true
	for i := range claim {
		p := &claim[i]
		if p.held == nil {
			continue
		}
		err := s.record(ctx, p, a.failed(p))
		all = all && err == nil
		switch {
		case err == nil:
		case errors.Is(err, lease.ErrNotHeld), !lease.Refused(err), lease.ServerWide(err):
			a.lose(p) // another worker has the group, and counts the attempt; or nobody can be told of it now
			p.outcome = schedule.Outcome{Missed: true}
			s.crew.log.Warn("pgfifo: failed attempt not recorded", "queue", p.turn.Queue, "group", p.turn.GroupID,
				"job", p.held.ID, "error", err)
		default:
			s.unrecorded(ctx, a, p, err)
		}
	}
	return all
}

// unrecorded deals with a group of which the server refuses what became of its attempt. An attempt that has failed is
// counted by the next claim of the job, as lost. So no handler runs more often than MaxAttempts says, whatever is
// refused. One that is not counted is no crash.
func (s *seat) unrecorded(ctx context.Context, a *attempt, p *place, err error) {
	failed := a.failed(p)
	charged := failed != nil && failed.outcome != Snoozed && failed.job.ID == p.held.ID
	a.lose(p)
	p.outcome = schedule.Outcome{Trouble: true}
	s.crew.trouble(p.turn.Key, fmt.Errorf("fifo: failed attempt not recorded: %w", err))
	switch {
	case a.ran && charged:
		_ = s.holder.Charge(ctx, p.held)
	case a.ran || a.results[0].failure == usedUp:
		h := &lease.Held{Key: p.turn.Key}
		if p.held.GroupSlot || p.held.Token() != 0 { // who has it is known
			h = p.held
		}
		_ = s.holder.Record(ctx, h)
	}
}

// failed returns the attempt of a group that has failed or is snoozed, or nil.
func (a *attempt) failed(p *place) (failed *result) {
	for i := range a.results {
		if r := &a.results[i]; r.place == p && r.outcome.recorded() {
			failed = r
		}
	}
	return failed
}

// lose says of a group's jobs that it is not known what will count their attempts.
func (a *attempt) lose(p *place) {
	for i := range a.results {
		if r := &a.results[i]; r.place == p {
			r.outcome = Unknown
		}
	}
}

func (s *seat) record(ctx context.Context, p *place, failed *result) error {
	if failed == nil {
		return s.holder.Record(ctx, p.held)
	}
	if !failed.delayKnown {
		failed.delayKnown, failed.delay = true, s.delay(p, failed.job, failed.failure.err)
	}
	delay := failed.delay
	if err := s.holder.Record(ctx, p.held, s.failCall(failed, delay)); err != nil {
		return err
	}
	p.outcome = schedule.Outcome{More: true}
	if failed.job.ID == p.held.ID { // else it is behind jobs that run again first
		p.failed(failed, delay, true)
	}
	return nil
}

// oneByOne makes the jobs of a batch that failed run again by themselves.
func (a *attempt) oneByOne() {
	a.now = true
	for i := range a.results {
		r := &a.results[i]
		r.place.upTo = r.job.ID
		r.place.alone = r.place != a.results[0].place || r.place != a.results[len(a.results)-1].place
	}
}
