package fifo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// A Queue says how a worker works one queue. One of Handler and BatchHandler is required.
type Queue struct {
	// Handler works one job at a time. In a batch it is called for each job of the transaction in turn, each time
	// within a savepoint of its own.
	Handler Handler
	// BatchHandler works all jobs of a transaction in one call: those of one group in order, or one each of several
	// groups, as BatchJobs and BatchGroups say. The Tx of any of them returns the transaction that they share. If it
	// returns nil they are all done.
	//
	// If it returns a BatchError, the jobs that it names have failed. The other groups' jobs are done; in a group,
	// those before the first that failed are done, and those behind it run again, whether they are named or not: do
	// nothing for them. (With BatchJobs a Handler, which is called for one job after the other, sees to that by
	// itself.) What was written through the transaction stays, so undo what was written for a failed job, with a
	// transaction begun on the batch's. With one job at a time, too, this is how a job leaves a word of its own beside
	// its dead letter: write it, and return a BatchError with a DeadLetter.
	//
	// Any other error, and a panic, undoes the batch, and its jobs run again one at a time: each succeeds or fails for
	// itself then, and until then no attempt is counted. After Unavailable or Snooze its groups wait instead, all of
	// them. Its context ends after JobTimeout times the number of jobs.
	BatchHandler func(ctx context.Context, jobs []*Job) error
	// BatchJobs and BatchGroups say how much of the queue one transaction, a batch, takes, and so how much is repeated
	// when it is lost. Zero means 1, and only one of the two may be more than 1; MaxBatch is the limit of both.
	//
	// With BatchJobs, a transaction has up to that many consecutive jobs of one group. They are worked in order, and
	// the first failure stops the batch: what succeeded before it is done, the one that failed is tried again in its
	// place, the rest is given back uncounted. With BatchGroups, it has the jobs at the heads of up to that many
	// groups; a failure concerns its own group only. Either has fewer jobs if their payloads would have more than 16
	// MiB together.
	//
	// All that a batch writes is committed at once, and until then its groups wait, so it is for many small jobs. When
	// its worker dies all of it is undone, and run again: effects elsewhere are repeated for up to a whole batch. The
	// jobs at the heads of its groups are charged with the lost attempt, and a job that has failed or was lost before
	// always runs alone: one that kills its workers is found out, as it would be without batches. A job that was sent
	// with a delay, or that may be tried only once, runs alone as well.
	//
	// Before the COMMIT of a batch, the deferred constraints of what it writes are checked (SET CONSTRAINTS ALL
	// IMMEDIATE), and its cursors are closed, also those WITH HOLD. If a constraint is violated, all jobs run again,
	// one by one.
	//
	// With a Handler, each job that writes through the transaction takes a subtransaction, and each transaction begun
	// on it or behind a Commit takes another. Keep them under 64 in a batch, with up to 60 jobs: beyond that, every
	// session of the cluster looks them up on disk for as long as the batch runs. A BatchHandler takes one.
	//
	// With a Handler, the transaction goes on from job to job. What one sets with SET LOCAL is in force for the next
	// ones, too, except what settling depends on (the role, the encoding, the search path, timeouts); its temporary
	// tables ON COMMIT DROP and its open cursors are there. So each job is to set what it needs, and to drop and close
	// what it made.
	//
	// A handler that ends the transaction by hand, with an SQL COMMIT, commits what the jobs before it in the batch
	// wrote, and they run again all the same.
	//
	// With BatchGroups, one job can cost the others an attempt: if its handler ends the transaction by hand, leaves
	// rows open, or returns while its statement runs; if its row cannot be read; if the server refuses its end, because
	// of a trigger of yours or a lock that takes too long; or if COMMIT alone refuses, because of a NOTIFY when the
	// queue of notices is full, a temporary table ON COMMIT DELETE ROWS to which another one refers, or an extension.
	BatchJobs, BatchGroups int
	// MaxAttempts is how often a job is tried before it is given up, unless its message says. An attempt that was lost
	// with its worker counts. Defaults to the worker's; negative: no limit.
	MaxAttempts int
	// OnGiveUp says what becomes of a job that has used up its attempts. Defaults to ToDeadLetters.
	OnGiveUp GiveUp
	// DeadLetterQueue is another queue, to which a job moves in place of the dead letters, in the transaction that ends
	// its last attempt: to the end of the group with the same id there, under a new id. A handler works it there as any
	// job, with all the attempts that the queue gives. Its payload and headers stay; the Origin headers are added, and
	// may go beyond the limit for both. What an operator makes a dead letter (Scope.Bury) stays one. Config.CommitOrder
	// does not order such a move. Workers are told after the commit; those that are not find it at their next poll.
	// Scope.Move takes it back. Defaults to none.
	DeadLetterQueue string
	// Retry returns how long a group waits after a failed attempt of its head; see Worker.Retry. Defaults to the
	// worker's.
	Retry func(job *Job, err error) time.Duration
	// JobTimeout is how long a handler may run; see Worker.JobTimeout. Defaults to the worker's; negative: no limit.
	JobTimeout time.Duration
	// AbandonAfter is how long a handler may go on after its context has ended; see Worker.AbandonAfter. Defaults to
	// the worker's; negative: for ever.
	AbandonAfter time.Duration
	// Relaxed says that the completion of jobs does not wait for the server's disk, nor for its standbys: one group
	// that is always busy, or a slow disk, does many times as much. Such a commit has synchronous_commit off, whatever
	// the handler sets.
	//
	// A crash of the server, or a standby in its place, then undoes the last moments' completions, three times its
	// wal_writer_delay at most, each together with all that its handler wrote through the transaction, what it enqueued
	// there too. Those jobs run again, in order, although Hooks.Settled was told that they had succeeded; some are
	// charged with a lost attempt first. A commit that a durable one has followed is not undone, and a worker's crash
	// undoes nothing. Effects elsewhere happen again.
	//
	// What other clients enqueue stays as durable as before. So do the records of attempts that fail or snooze, and of
	// the jobs that share a batch with one. No fencing token (Job.Fence) is given out again.
	Relaxed bool
	// MinLanes is how many of the worker's lanes are kept for this queue: other queues do not use them, so this many
	// jobs of the queue can begin without waiting for jobs of other queues to end. All queues of one lease together may
	// keep no more than Concurrency, or with Settings.SessionLease SessionConcurrency, and must leave one for those
	// that keep none. Run returns ErrInvalidWorker if not. Defaults to none, as negative does. See Worker.SetLanes.
	MinLanes int
	// MaxLanes is how many of the worker's lanes may work this queue at once, or how many of its jobs may run at once
	// with Settings.SessionLease. It is a bound for this worker, not for all. A job whose handler has returned and that
	// is being completed does not count. Defaults to no bound, as negative does.
	MaxLanes int
	// Share says to which share of the queue a group belongs: to which tenant, say. The shares have the queue's lanes
	// in turn, by the time that they have used, and the groups of a share have its turns: so one with 10,000 groups
	// gets no more than one with 10 that want as much. It is called whenever the worker finds or is told of a group,
	// by several goroutines at once, and they wait for it: it should be quick, and always say the same of a group. If
	// it panics the group belongs to share "", and the first panic is logged. Up to 1,024 shares of a queue that have
	// groups waiting or running at once are told apart; those beyond count as one. Defaults to one share.
	Share func(groupID string) string
	// Weights says by share how many times as much of the lanes' time it gets as one with weight 1, which is the
	// default: from 1 to MaxWeight.
	Weights map[string]int
}

// MaxWeight is the largest weight of a share.
const MaxWeight = 1000

func (q *Queue) validate() error {
	switch {
	case q.Handler == nil && q.BatchHandler == nil:
		return errors.New("nil handler")
	case q.Handler != nil && q.BatchHandler != nil:
		return errors.New("both a Handler and a BatchHandler")
	case min(q.BatchJobs, q.BatchGroups) < 0, max(q.BatchJobs, q.BatchGroups) > MaxBatch,
		q.BatchJobs > 1 && q.BatchGroups > 1:
		return fmt.Errorf("invalid batch: %d jobs, %d groups", q.BatchJobs, q.BatchGroups)
	case len(q.Weights) > 0 && q.Share == nil:
		return errors.New("weights without a Share")
	case q.OnGiveUp < ToDeadLetters || q.OnGiveUp > Discard:
		return fmt.Errorf("invalid OnGiveUp: %d", q.OnGiveUp)
	}
	if q.DeadLetterQueue != "" {
		if err := groups.ValidateID("DeadLetterQueue", q.DeadLetterQueue); err != nil {
			return err
		}
	}
	q.Weights = maps.Clone(q.Weights)
	for share, weight := range q.Weights {
		if weight < 1 || weight > MaxWeight {
			return fmt.Errorf("invalid weight of share %q: %d", share, weight)
		}
	}
	return validLanes(q.MinLanes, q.MaxLanes)
}

// withDefaults returns the queue with the worker's settings in place of those that it does not set.
func (q Queue) withDefaults(w *Worker) Queue {
	q.MaxAttempts = cmp.Or(q.MaxAttempts, w.MaxAttempts, DefaultMaxAttempts)
	if q.MaxAttempts < 0 {
		q.MaxAttempts = math.MaxInt32
	}
	if q.Retry == nil {
		q.Retry = w.Retry
	}
	if q.Retry == nil {
		q.Retry = DefaultRetry
	}
	q.JobTimeout = cmp.Or(q.JobTimeout, w.JobTimeout, 15*time.Minute)
	q.AbandonAfter = cmp.Or(q.AbandonAfter, w.AbandonAfter)
	return q
}

func (q *Queue) maxAttempts(h *lease.Held) int { return cmp.Or(h.MaxAttempts, q.MaxAttempts) }
