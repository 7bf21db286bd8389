package fifo

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
)

// A conclusion is what became of an attempt whose step is done.
type conclusion struct{ *attempt }

// conclude says what became of an attempt whose step is done. tell, unless it is nil, tells the hooks, the counters and
// the log. It may be called again if a hook has ended its goroutine: it goes on behind that hook. If the step failed
// but the server is there, what failed is the handler's doing (it ended the transaction, or a deferred constraint
// stopped the commit) or that of the group's rows (a trigger of the user's): that is recorded as a failed attempt, and
// conclude reports recorded.
func conclude(ctx context.Context, a *attempt, settled bool, err error) (recorded bool, tell func()) {
	c := conclusion{a}
	if len(a.results) == 0 {
		return false, nil
	}
	switch {
	case a.broken:
		recorded = c.mend(ctx)
	case settled || a.results[0].outcome == Unknown: // and so are all of them: see revoke
	case errors.Is(err, lease.ErrGivenBack):
		a.revoke(Returned, KindError, fmt.Errorf("fifo: the jobs could not be completed: %w", err))
		a.oneByOne()
		recorded = true
	case errors.Is(err, lease.ErrUnsettled):
		a.unsettle(err)
		recorded = c.mend(ctx)
	case lease.Refused(err):
		recorded = c.refuse(ctx, fmt.Errorf("fifo: the job could not be completed: %w", err))
	default:
		a.revoke(Unknown, KindLost, err)
	}
	told, called := false, 0
	return recorded, func() {
		if !told {
			told = true
			for i := range a.results {
				c.tell(ctx, &a.results[i])
			}
			c.forwarded()
		}
		a.crew.worker.Client.hooks.settled(ctx, a.results, &called)
	}
}

// refuse deals with jobs that could not be completed although their handlers succeeded. One has failed; of several it
// is not known which, so they run again one by one. Attempts that were found lost stay what they are, and what was to
// be given back is given back.
func (c conclusion) refuse(ctx context.Context, why error) bool {
	if !c.ran {
		return c.mend(ctx)
	}
	returned := c.results[0].outcome == Returned // given back: it has not failed
	c.revoke(Returned, KindError, why)
	switch {
	case len(c.results) > 1:
		c.oneByOne()
	case !returned:
		c.results[0].outcome = Retried // failCall says what becomes of it
	}
	return c.mend(ctx)
}

// tell tells the counters and the log what became of a job.
func (c conclusion) tell(ctx context.Context, r *result) {
	crew := c.crew
	crew.worker.stats.outcomes[r.outcome].Add(1)
	if r.outcome.recorded() && errors.Is(r.failure.err, diedError{}) {
		crew.worker.stats.lost.Add(1)
	}
	if r.outcome != Succeeded {
		crew.teller.log(ctx, crew.log, r)
	}
	if r.outcome == Unknown && !errors.Is(r.failure.err, ErrAbandoned) {
		crew.left.lose(r.job)
	}
}

// forwarded tells workers of jobs that have moved to a DeadLetterQueue, as an enqueue does of its jobs.
func (c conclusion) forwarded() {
	for i := range c.results {
		if r := &c.results[i]; r.outcome == Buried && r.moved != "" {
			c.crew.worker.Client.announce.say(func(h hints) { h.add(r.moved, r.job.GroupID, 0, false) })
		}
	}
}

// mend records on another connection what became of groups whose transaction was lost while the worker lives: a failed
// attempt, or that the jobs are given back. It reports whether it could. If the server refuses that, too, the group is
// left alone for a while, and whoever claims the job next counts an attempt that is to be counted. So no handler runs
// more often than MaxAttempts says, whatever is refused, unless its job is behind the head of a batch, and the server
// refuses its mark, too. If there was no answer, whoever claims the group next finds that the transaction was lost, and
// counts that.
func (c conclusion) mend(ctx context.Context) bool {
	all := true
	for i := range c.claim {
		p := &c.claim[i]
		if p.held == nil {
			continue
		}
		err := c.record(ctx, p, c.failureOf(p))
		if err == nil {
			continue
		}
		all = false
		c.lose(p)
		if errors.Is(err, lease.ErrNotHeld) || !lease.Refused(err) || lease.ServerWide(err) {
			// Another worker has the group, and counts the attempt; or no group is to blame.
			p.outcome = schedule.Outcome{Missed: true}
			c.crew.log.Warn("pgfifo: failed attempt not recorded", "queue", p.turn.Queue, "group", p.turn.GroupID,
				"job", p.held.ID, "error", err)
			continue
		}
		p.outcome = schedule.Outcome{Trouble: true}
		c.crew.trouble(p.turn.Key, fmt.Errorf("fifo: failed attempt not recorded: %w", err))
	}
	return all
}

// failureOf returns the failed or snoozed attempt of a group, or nil.
func (c conclusion) failureOf(p *place) (failed *result) {
	for i := range c.results {
		if r := &c.results[i]; r.place == p && r.outcome.recorded() {
			failed = r
		}
	}
	return failed
}

// lose notes that the outcome of a group's jobs is not known: others may count their attempts.
func (c conclusion) lose(p *place) {
	for i := range c.results {
		if r := &c.results[i]; r.place == p {
			r.outcome = Unknown
		}
	}
}

func (c conclusion) record(ctx context.Context, p *place, failed *result) error {
	if failed == nil {
		return c.holder.Record(ctx, p.held)
	}
	if !failed.delayKnown {
		failed.delayKnown, failed.delay = true, c.delay(failed.task, failed.failure.err)
	}
	call := c.failCall(failed)
	call.Counts = failed.outcome != Snoozed && failed.failure != usedUp
	if err := c.holder.Record(ctx, p.held, call); err != nil {
		return err
	}
	p.outcome = schedule.Outcome{More: true}
	if failed.job.ID == p.held.ID { // else it is behind jobs that run again first
		p.failed(failed, true)
	}
	return nil
}
