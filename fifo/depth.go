package fifo

import (
	"context"
	"time"
)

// A Depth is how much there is in a queue, or in a group.
type Depth struct {
	Jobs        int       // those that wait and those that run
	Groups      int       // groups with jobs; of a group 0 or 1
	OldestAt    time.Time // when the oldest of them was enqueued; zero: there are none
	DueSince    time.Time // since when some job could have run, if nothing were before it; zero: none is due
	DeadLetters int       // given up and not deleted
}

// Measure counts, for gauges. It reads an index entry of every job: of a queue with a million once a minute is fine,
// once a second is not.
func (s Scope) Measure(ctx context.Context) (d Depth, err error) {
	var oldest, due *time.Time
	err = s.read(ctx, "measure", measureSQL, func(r row) error {
		return r.Scan(&d.Jobs, &d.Groups, &d.DeadLetters, &oldest, &due)
	}, s.queue, s.groupOrNull())
	if err != nil {
		return Depth{}, err
	}
	d.OldestAt, d.DueSince = orZero(oldest), orZero(due)
	return d, nil
}
