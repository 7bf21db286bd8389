package fifo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// settle tells hooks, counters and the log what became of an attempt whose step is done. If the step failed but the
// lane is there, what failed is the handler's doing (it ended the transaction, or a deferred constraint stopped the
// commit): that is recorded as a failed attempt, and settle reports true.
func (s *seat) settle(ctx context.Context, a *attempt, claim []place, settled bool, err error) (recorded bool) {
	if len(a.results) == 0 {
		return false
	}
	switch {
	case a.broken:
		recorded = s.mend(ctx, a, claim)
	case settled || a.results[0].outcome == Unknown:
	case s.lane.Closed():
		a.revoke(Unknown, KindLost, err)
	default:
		recorded = s.refuse(ctx, a, claim, fmt.Errorf("fifo: the job could not be completed: %w", err))
	}
	for i := range a.results {
		s.tell(ctx, &a.results[i])
	}
	return recorded
}

// refuse deals with jobs that could not be completed although their handlers succeeded. One has failed; of several it is
// not known which, so they run again one by one.
func (s *seat) refuse(ctx context.Context, a *attempt, claim []place, why error) bool {
	a.revoke(Returned, KindError, why)
	if len(a.results) == 1 {
		a.results[0].outcome = Retried // what becomes of it, mend says
	} else {
		a.oneByOne()
	}
	return s.mend(ctx, a, claim)
}

// tell passes on what became of a job.
func (s *seat) tell(ctx context.Context, r *result) {
	c := s.crew
	c.worker.stats.outcomes[r.outcome].Add(1)
	if r.outcome != Succeeded {
		attrs := []any{
			"queue", r.job.Queue, "group", r.job.GroupID, "job", r.job.ID, "attempt", r.job.Attempt(), "error", r.failure.err,
		}
		if r.outcome == Buried {
			c.log.Info("pgfifo: dead letter", attrs...)
		} else {
			c.log.Debug("pgfifo: attempt "+r.outcome.String(), attrs...)
		}
	}
	if c.worker.Client.cfg.Hooks.Settled != nil {
		var why error
		if r.failure != nil {
			why = r.failure.err
		}
		c.worker.Client.cfg.Hooks.settled(ctx, r.job, r.outcome, why)
	}
}

// mend claims groups once more whose transaction was lost while the worker lives: to record the failed attempt, and so
// that what is left of the transaction is not taken for a crash. If somebody else has a job by now, their attempt is the
// one that counts.
func (s *seat) mend(ctx context.Context, a *attempt, claim []place) bool {
	var errs error
	for i := range claim {
		p := &claim[i]
		if p.held == nil {
			continue
		}
		var failed *result
		var behind []byte // the head, as ids in an array
		for j := range a.results {
			r := &a.results[j]
			if r.place == p && (r.outcome == Retried || r.outcome == Buried) {
				failed = r
			}
			if r.place == p && r.job.ID != p.held.ID {
				behind = strconv.AppendInt(append(behind, ','), r.job.ID, 10)
			}
		}
		if err := s.tryMend(ctx, p, failed, behind); err != nil {
			errs = errors.Join(errs, err)
			for j := range a.results {
				if r := &a.results[j]; r.place == p {
					r.outcome = Unknown
				}
			}
			p.outcome = groups.Outcome{Missed: true}
			s.crew.log.Warn("pgfifo: failed attempt not recorded", "queue", p.turn.Queue, "group", p.turn.GroupID,
				"job", p.held.ID, "failure", a.results[len(a.results)-1].failure.err, "error", err)
		}
	}
	return errs == nil
}

var errTakenOver = errors.New("fifo: another worker has the job")

func (s *seat) tryMend(ctx context.Context, p *place, failed *result, behind []byte) error {
	redialed := s.lane.Closed()
	if redialed {
		if err := s.dial(ctx); err != nil {
			return err
		}
	}
	hold, _, err := s.lane.Step(ctx, nil, groups.At(p.turn.Key, p.held.ID))
	if err != nil && s.lane.Closed() && !redialed { // the handler left a session on which nothing can be claimed
		redialed = true
		if err = s.dial(ctx); err == nil {
			hold, _, err = s.lane.Step(ctx, nil, groups.At(p.turn.Key, p.held.ID))
		}
	}
	// The session that was left may hold the group for a moment yet.
	for wait := time.Millisecond; redialed && hold == nil && err == nil && wait < 250*time.Millisecond; wait *= 2 {
		if _, _, err = s.lane.Step(ctx, nil, nil); err == nil {
			time.Sleep(wait)
			hold, _, err = s.lane.Step(ctx, nil, groups.At(p.turn.Key, p.held.ID))
		}
	}
	if err != nil {
		return err
	}
	if hold == nil || hold.ID != p.held.ID {
		_, _, err := s.lane.Step(ctx, nil, nil)
		return errors.Join(errTakenOver, err)
	}
	var calls []groups.Call
	if len(behind) > 0 {
		behind[0] = '{'
		args := [][]byte{[]byte(hold.Queue), []byte(hold.GroupID), append(behind, '}')}
		calls = append(calls, groups.Call{Statement: pardonStmt, Args: args})
	}
	if failed != nil {
		if failed.job.ID == hold.ID {
			failed.job.Attempts = hold.Attempts
		}
		delay := s.crew.delay(failed.job, failed.failure.err)
		calls = append(calls, s.failCall(failed, delay))
		p.outcome = groups.Outcome{DueIn: delay, More: true}
		if failed.job.ID != hold.ID { // behind jobs that run again first
			p.outcome.DueIn = 0
		} else if failed.outcome == Buried {
			p.outcome = groups.Outcome{Finished: hold.ID, More: true}
		}
	}
	_, _, err = s.lane.Step(ctx, calls, nil)
	return err
}
