package fifo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxBatch is the limit of Queue.BatchJobs and of Queue.BatchGroups.
const MaxBatch = 1000

// A BatchError names the jobs of a batch that failed, by their ids, and why. RetryAfter and its like work as in the
// error of a Handler: inside the BatchError for one job, around it for all jobs that it names. An empty BatchError of a
// BatchHandler is no error. One that names no job of the batch is an error like any other.
type BatchError map[int64]error

func (e BatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fifo: %d of the batch failed", len(e))
	for _, id := range slices.Sorted(maps.Keys(e)) {
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
