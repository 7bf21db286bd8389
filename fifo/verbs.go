package fifo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// RetryNow ends the delay or the backoff of a job: it runs as soon as its turn comes. That is at once if it is the head
// of its group, nothing is paused, the queue and the group are under their limits, the queue is not probed
// (Unavailable), and the server has refused nothing about the group (Stats.Troubles; such a group may rest for half a
// minute more). The job keeps its attempts. If it has used them up in a queue with BlockGroup, it does not run when its
// turn comes: it blocks its group. Resume gives it new ones. Workers are told, as by Resume.
//
// Like Delete, Bury and Edit it is for one job of the queue or group, in any place, and does not wait for a running
// job. If it did nothing it returns an error that says why: ErrJobHeld for a job that is running, or that somebody else
// is changing, and ErrJobNotFound, also for a dead letter: see Redrive and DeleteDeadLetters. A batch has the first job
// of its group locked and no other: those behind it are changed, and the batch is undone, and runs again without them
// or with what they are then.
//
// A worker that looks at a paused or delayed job has it locked for a moment. Then these verbs try again, for a quarter
// of a second, also if the job runs on under a pause; with In they do not.
func (s Scope) RetryNow(ctx context.Context, id int64) error {
	return s.one(ctx, "retry", id, nil, func(g Scope) (int64, error) {
		return g.alter(ctx, "retry a job of", statement("retry_now"), g.queue, g.group, id)
	})
}

// Delete removes a job for good, unless it runs, and undoes the block that it has made (BlockGroup). Its DedupID stays
// remembered. Delete returns what RetryNow does.
func (s Scope) Delete(ctx context.Context, id int64) error {
	return s.takeOut(ctx, "delete", id, nil)
}

// Bury moves a job to the dead letters, unless it runs, whatever attempts it has left, and undoes the block that it has
// made (BlockGroup). The reason becomes the last of its Failures, of KindOperator. It is a text like the reason of
// Pause, or Bury returns ErrInvalidID. Otherwise Bury returns what RetryNow does.
func (s Scope) Bury(ctx context.Context, id int64, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	return s.takeOut(ctx, "bury", id, reason)
}

// takeOut takes a job out of its group, with the block that it has made. With a reason, a text, it becomes a dead
// letter; nil: it is gone.
func (s Scope) takeOut(ctx context.Context, verb string, id int64, reason any) error {
	return s.one(ctx, verb, id, nil, func(g Scope) (xid int64, err error) {
		err = g.unblocking(ctx, verb, func(g Scope) error {
			xid, err = g.alter(ctx, verb+" a job of", statement("take_out"),
				g.queue, g.group, id, reason, maxFailures)
			return err
		})
		return xid, err
	})
}

// Edit calls f with a job, unless it runs, and stores the Payload and the Headers that f leaves in it, and nothing
// else. They are checked as a Message's: ErrInvalidMessage. If f returns an error, Edit returns that, and nothing is
// changed. The job does not begin while f runs, unless it is behind the head of a batch: then it may begin as it was,
// and the batch waits, and is undone. A nil f is an error, before any SQL. Otherwise it returns what RetryNow does.
func (s Scope) Edit(ctx context.Context, id int64, f func(job *Job) error) error {
	if f == nil {
		return errors.New("fifo: Edit: nil function")
	}
	var job Job
	read := func(r row) (err error) {
		job, err = scanJob(r)
		return err
	}
	return s.one(ctx, "edit", id, read, func(g Scope) (int64, error) {
		if err := f(&job); err != nil {
			return 0, err
		}
		payload, headers, err := Message{Payload: job.Payload, Headers: job.Headers}.encodeContent()
		if err != nil {
			return 0, err
		}
		return g.alter(ctx, "edit a job of", statement("edit"), g.queue, g.group, id, payload, headers)
	})
}

// one locks a job, passes it to read, unless that is nil, and calls change with its group. change returns the
// transaction's id, or 0 if it could do nothing. Then one tells workers. If the job is not changed, the error says why.
// While a claim may just be looking at the job, one tries again for a while, each time in a new transaction: so not in
// the caller's.
func (s Scope) one(
	ctx context.Context, verb string, id int64, read func(row) error, change func(group Scope) (int64, error),
) error {
	for n, begin := 0, time.Now(); ; n++ {
		looked, err := s.oneNow(ctx, verb, id, read, change)
		over := n > 0 && time.Since(begin) > tuning.Wait/4
		if !looked || s.in != nil || over || pause.For(ctx, tuning.Rest) != nil {
			return err
		}
	}
}

// oneNow is one without another try. looked says that somebody has the job locked, or had a moment ago, and does not
// run it as far as can be seen: a worker may look at what is paused or not due, and gives it back.
func (s Scope) oneNow(
	ctx context.Context, verb string, id int64, read func(row) error, change func(group Scope) (int64, error),
) (looked bool, err error) {
	var why Status
	locked, xid := false, int64(0)
	err = s.together(ctx, verb+" a job of", func(s Scope) (err error) {
		if why, err = s.WhyJob(ctx, id); err != nil || why.State == Dead {
			return err
		}
		group := s.groupOf(why.GroupID)
		switch locked, err = group.lock(ctx, id, read); {
		case err != nil:
		case locked:
			xid, err = change(group)
		default:
			why, err = s.WhyJob(ctx, id)
		}
		return err
	})
	switch {
	case err != nil:
		return false, err
	case xid != 0:
		group := s.groupOf(why.GroupID)
		group.announce(xid, group.hint)
		return false, nil
	case locked:
		return false, fmt.Errorf("%w: cannot %s it: a transaction refers to its row by a foreign key, or a trigger "+
			"keeps it", ErrJobHeld, verb)
	case why.State == Dead:
		return false, fmt.Errorf("%w: %s%s", ErrJobNotFound, why.Reason(), insteadOf[verb])
	case why.State == Held:
		looked = why.Paused || !why.DueAt.IsZero()
		return looked, fmt.Errorf("%w: cannot %s it: %s", ErrJobHeld, verb, why.Reason())
	default: // who had it has let it go since
		return true, fmt.Errorf("%w: cannot %s it: somebody had it locked a moment ago: try again; now %s",
			ErrJobHeld, verb, why.Reason())
	}
}

// insteadOf says which verb to use for a dead letter, by the verb for a job.
var insteadOf = map[string]string{
	"retry":  "; to run it again, use Redrive",
	"edit":   "; to change it and run it again, use Redrive of its group, with its id in IDs, and a Payload or Headers",
	"delete": "; to delete it, use DeleteDeadLetters",
}

// lockJobSQL is lock_job.sql with the columns of the lists.
var lockJobSQL = selectJobSQL + " FROM (" + statement("lock_job") + ") AS locked"

// lock locks a job of the group, and reports whether it could.
func (s Scope) lock(ctx context.Context, id int64, read func(row) error) (locked bool, err error) {
	err = s.read(ctx, "lock a job of", lockJobSQL, func(r row) error {
		locked = true
		if read == nil { // it may have been written by hand, and be unreadable
			return nil
		}
		return read(r)
	}, s.queue, s.group, id)
	return locked && err == nil, err
}
