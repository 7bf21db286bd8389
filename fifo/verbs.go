package fifo

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RetryNow ends the delay or the backoff of a job: it runs as soon as its turn comes. That is at once if it is the head
// of its group, nothing is paused, the queue and the group are under their limits, and the queue is not probed
// (Unavailable). It keeps its attempts: one that has used them up, in a queue with BlockGroup, blocks its group when
// its turn comes and does not run. Resume gives it new ones. Workers are told, as by Resume.
//
// Like Delete, Bury and Edit it is for one job of the queue or group, in any place, and does not wait for a running
// job. If it did nothing it returns an error that says why: ErrJobHeld for a job that is running, or that somebody else
// is changing, and ErrJobNotFound. Jobs that run in a batch behind the head of their group are not held: they are
// changed, and the batch is undone, and runs again without them or with what they are then.
func (s Scope) RetryNow(ctx context.Context, id int64) error {
	return s.one(ctx, "retry", id, func(g Scope) (bool, error) {
		return g.alter(ctx, "retry a job of", retryNowSQL, g.queue, g.group, id)
	})
}

// Delete removes a job for good, unless it runs, and undoes the block that it has made (BlockGroup). It returns what
// RetryNow does.
func (s Scope) Delete(ctx context.Context, id int64) error {
	return s.one(ctx, "delete", id, func(g Scope) (bool, error) {
		return g.takeOut(ctx, "delete a job of", id, false, nil)
	})
}

// Bury moves a job to the dead letters, unless it runs, whatever attempts it has left, and undoes the block that it has
// made (BlockGroup). The reason becomes the last of its Failures, of KindOperator. It is a text like the reason of
// Pause, or Bury returns ErrInvalidID. Otherwise Bury returns what RetryNow does.
func (s Scope) Bury(ctx context.Context, id int64, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	return s.one(ctx, "bury", id, func(g Scope) (bool, error) {
		return g.takeOut(ctx, "bury a job of", id, true, reason)
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
	if _, err := s.session(ctx); err != nil {
		return err
	}
	if !s.within {
		return pgx.BeginTxFunc(ctx, s.client.pool, readCommitted, func(tx pgx.Tx) error {
			return s.InPgx(tx).Edit(ctx, id, f)
		})
	}
	return s.one(ctx, "edit", id, func(g Scope) (bool, error) {
		var job *Job
		err := g.read(ctx, "lock a job of", editLockSQL, func(r row) error {
			j, err := scanJob(r)
			job = &j
			return err
		}, g.queue, g.group, id)
		if err != nil || job == nil {
			return false, err
		}
		if err := f(job); err != nil {
			return false, err
		}
		payload, headers, err := Message{Payload: job.Payload, Headers: job.Headers}.encodeContent()
		if err != nil {
			return false, err
		}
		return g.alter(ctx, "edit a job of", editSQL, g.queue, g.group, id, payload, headers)
	})
}

// one finds the group of a job, and calls do with it. If that does nothing, the error says why.
func (s Scope) one(ctx context.Context, verb string, id int64, do func(group Scope) (bool, error)) error {
	why, err := s.WhyJob(ctx, id)
	if err != nil {
		return err
	}
	if why.State != Dead {
		if done, err := do(s.Group(why.GroupID)); done || err != nil {
			return err
		}
		if why, err = s.WhyJob(ctx, id); err != nil {
			return err
		}
	}
	if why.State == Dead {
		return fmt.Errorf("%w: %s", ErrJobNotFound, why.Reason())
	}
	return fmt.Errorf("%w: cannot %s it: %s", ErrJobHeld, verb, why.Reason())
}
