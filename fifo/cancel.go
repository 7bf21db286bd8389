package fifo

import (
	"context"
	"fmt"
)

// Cancel pauses the queue or the group as Pause does, and tells the workers to end the contexts of the handlers that
// run there, with ErrCanceled as the cause. If a handler returns an error then, even a DeadLetter, its job is given
// back and no attempt is counted, unless its context had ended before: it runs again after Resume. In a batch of
// several groups a Handler's error gives back the jobs of its group, and a BatchHandler's all jobs of the batch, or
// those that a BatchError stops. To be rid of a job, call Delete or Bury again while it returns ErrJobHeld, and Resume
// then. A handler that returns nil has succeeded.
//
// Workers are told, at once or when the caller's transaction has committed. Cancel does not wait for them, and returns
// what Pause returns. Groups with Held lists the groups whose heads still run; WhyJob tells of a job behind a head. A
// worker that hears no notifications (RunOne, or with Config.PollOnly of its own Client or of s's) hears of no Cancel,
// and one that was not listening just then misses it. If s's Client is closed before it could tell them, all miss it.
// Call it again while something runs. A worker that hears of it asks whether the pause is still there: if somebody has
// resumed before, the handlers go on. A Cancel in a transaction is told when that commits, even if the Cancel itself
// was undone: by ROLLBACK TO SAVEPOINT, or because it was made in the transaction of an attempt that failed. An undone
// Cancel ends what runs only if its scope was paused before. Nobody can end a handler that ignores its context: see
// Terminate and Worker.AbandonAfter.
func (s Scope) Cancel(ctx context.Context, reason string) (was bool, jobs int, err error) {
	p, err := s.pause(ctx, "cancel", reason)
	if err == nil {
		s.announce(p.xid, func(h hints) { h.cancel(s.queue, s.group, p.at) })
	}
	return p.was, p.jobs, err
}

// Terminate ends the session that has the head of the group, by force, and reports whether there was one. Where several
// jobs of a group may run at once (Settings.GroupLimit), it ends those of all that run. A worker's session is ended
// whatever its handler does. The handler's context ends with ErrLost. Another worker may claim the group at once, and
// then the handler runs beside its successor: to prevent that, pause the group first. The worker that had the group
// claims it again when the handler has returned. The attempt is counted as lost (KindLost) when a worker claims the
// group next: after Resume if it is paused. Terminate does not wait for the end, which cannot be undone.
//
// It needs the right to pg_terminate_backend: to be a member of the worker's role or of pg_signal_backend. It ends the
// session of whoever holds the head: also an operator's, or that of a producer whose transaction replaces the payload.
// If the session goes on to another job in the same moment, it loses that. It returns ErrInvalidID for a queue.
//
// With Settings.SessionLease, one session holds all of a worker's groups, and goes on. Terminate takes the group from
// it, whichever job of it runs, and ends another session only if that has had the group's row locked for a second: the
// handler has the job's transaction. The attempt is lost as above, and nothing of it commits, whatever the handler
// returns. Its context ends with ErrLost when the worker hears of it, by a notice as of Cancel. A worker that hears
// none finds out when the handler asks for the transaction, or returns; until then the job counts for Settings.Limit.
// Other groups of its batch (BatchGroups) run again: uncounted, unless the handlers had the transaction, whose session
// was ended. The group is taken by an UPDATE, which a rollback undoes. An admin may do it without the right to end
// sessions.
func (s Scope) Terminate(ctx context.Context) (bool, error) {
	if s.level != ofGroup {
		return false, fmt.Errorf("%w: Terminate is for a group", ErrInvalidID)
	}
	const verb = "terminate the holder of"
	kept := false
	err := s.read(ctx, verb, statement("kept"), into(&kept), s.queue, s.group)
	if err != nil {
		return false, err
	}
	if kept { // first: a lane that has the row locked may be settling jobs of other groups with it, which is quick
		if taken, err := s.take(ctx, verb); taken || err != nil {
			return taken, err
		}
	}
	if err := s.forget(ctx, verb); err != nil {
		return false, err
	}
	ended := false
	err = s.read(ctx, verb, statement("terminate"), into(&ended), s.queue, s.group)
	if err != nil || !kept {
		return ended, err
	}
	taken, err := s.take(ctx, verb)
	return ended || taken, err
}

// take takes the group from the session that has it, and reports whether it could: not while somebody else has its row
// locked.
func (s Scope) take(ctx context.Context, verb string) (bool, error) {
	xid, err := s.alter(ctx, verb, statement("take"), s.queue, s.group)
	if err != nil || xid == 0 {
		return false, err
	}
	s.announce(xid, func(h hints) {
		h.cancel(s.queue, s.group, 0)
		s.hint(h) // others may count the attempt
	})
	return true, nil
}
