package fifo

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// MaxBatch is the limit of Queue.BatchJobs and of Queue.BatchGroups.
const MaxBatch = 1000

// A BatchHandler works several jobs at once: those of one group in order, or one each of several groups, as
// Queue.BatchJobs and BatchGroups say. They share one transaction, which the Tx of any of them returns. If it returns
// nil they are all done.
//
// If it returns a BatchError, the jobs that it names have failed. The other groups' jobs are done; in a group, those
// before the first that failed are done, and those behind it run again, whether they are named or not: do nothing for
// them. (With BatchJobs a Handler, which is called for one job after the other, sees to that by itself.) What was
// written through the transaction stays, so undo what was written for a failed job, with a transaction begun on the
// batch's. With one job at a time, too, this is how a job leaves a word of its own beside its dead letter: write it,
// and return a BatchError with a DeadLetter.
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
