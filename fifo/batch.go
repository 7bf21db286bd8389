package fifo

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Batch says how much of a queue one transaction takes, and so how much is repeated when it is lost. Zero means 1,
// and only one of the two may be more than 1; MaxBatch is the limit of both.
//
// With Jobs, a transaction has up to so many consecutive jobs of one group. They are worked in order and the first
// failure stops it: what succeeded before it is done, the one that failed is tried again in its place, the rest is
// given back uncounted. With Groups, it has the jobs at the heads of up to so many groups; a failure concerns its own
// group only. Either has fewer jobs if their payloads would have more than 16 MiB together.
//
// All that a batch writes is committed at once, and until then its groups wait, so it is for many small jobs. When its
// worker dies all of it is undone, and run again: effects elsewhere are repeated for up to a whole batch. The jobs at
// the heads of its groups are charged with the lost attempt, and a job that has failed or was lost before always runs
// alone: one that kills its workers is found out, as it would be without batches. A job that was sent with a delay, or
// that may be tried only once, runs alone as well.
//
// Before the COMMIT of a batch, the deferred constraints of what it writes are checked (SET CONSTRAINTS ALL IMMEDIATE),
// and its cursors are closed, also those WITH HOLD. If a constraint is violated, all jobs run again, one by one.
//
// With a Handler, each job that writes through the transaction takes a subtransaction, and each transaction begun on it
// or behind a Commit takes another. Keep them under 64 in a batch, with Jobs or Groups up to 60: beyond that, every
// session of the cluster looks them up on disk for as long as the batch runs. A BatchHandler takes one.
//
// With a Handler, the transaction goes on from job to job. What one sets with SET LOCAL is in force for the next ones,
// too, but for what settling depends on (the role, the encoding, the search path, timeouts); its temporary tables ON
// COMMIT DROP and its open cursors are there. So each job is to set what it needs, and to drop and close what it made.
//
// A handler that ends the transaction by hand, with an SQL COMMIT, commits what the jobs before it in the batch wrote,
// and they run again all the same.
type Batch struct {
	// Jobs is how many consecutive jobs of one group.
	Jobs int
	// Groups is how many groups, with the job at the head of each.
	Groups int
}

// MaxBatch is the largest batch.
const MaxBatch = 1000

// A BatchHandler works several jobs at once: those of one group in order, or one each of several groups, as the queue's
// Batch says. They share one transaction, which the Tx of any of them returns. If it returns nil they are all done.
//
// If it returns a BatchError, the jobs that it names have failed. The other groups' jobs are done; in a group, those
// before the first that failed are done, and those behind it run again, whether they are named or not: do nothing for
// them. (With Batch.Jobs a Handler, which is called for one job after the other, sees to that by itself.) What was
// written through the transaction stays, so undo what was written for a failed job, with a transaction begun on the
// batch's. Without a Batch too, this is how a job leaves a word of its own beside its dead letter: write it, and return
// a BatchError with a DeadLetter.
//
// Any other error, and a panic, undoes the batch, and its jobs run again one at a time: each succeeds or fails for
// itself then, and until then no attempt is counted. After Unavailable its groups wait instead, all of them. Its
// context ends after JobTimeout times the number of jobs.
type BatchHandler func(ctx context.Context, jobs []*Job) error

// A BatchError names the jobs of a batch that failed, by their ids, and why. RetryAfter and its like work as in the
// error of a Handler: in it for one of the jobs, around it for all that it names. An empty BatchError is no error. One
// that names no job of the batch is an error like any other.
type BatchError map[int64]error

func (e BatchError) Error() string {
	ids := make([]int64, 0, len(e))
	for id := range e {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var b strings.Builder
	fmt.Fprintf(&b, "fifo: %d of the batch failed", len(e))
	for _, id := range ids {
		fmt.Fprintf(&b, "; job %d: %v", id, e[id])
	}
	return b.String()
}

// Unwrap returns the errors of the jobs.
func (e BatchError) Unwrap() []error {
	list := make([]error, 0, len(e))
	for _, err := range e {
		if err != nil {
			list = append(list, err)
		}
	}
	return list
}
