package fifo

import (
	"cmp"
	"context"
	"math"
	"time"
)

// A Depth is how much there is in a queue, or in a group. DueSince counts each job whose time has come: also one that
// runs, that is paused, or that waits behind others of its group. So it grows old during a pause, too, behind a job
// that blocks its group, and while a long job runs. Why tells which, and Groups with Paused lists what is paused or
// blocked.
type Depth struct {
	Jobs        int       // those that wait and those that run
	Groups      int       // groups with jobs; of a group 0 or 1
	OldestAt    time.Time `json:",omitzero"` // when the oldest of them was enqueued; zero: there are none
	DueSince    time.Time `json:",omitzero"` // since when the first of them is due; zero: none is yet
	DeadLetters int       // given up and not deleted
	More        bool      // of MeasureUpTo: there are more jobs, or dead letters, than it has counted
}

// Measure counts, for gauges. It reads an index entry of every job: for a queue with a million jobs, once a minute is
// fine and once a second is not. See MeasureUpTo.
func (s Scope) Measure(ctx context.Context) (Depth, error) {
	return s.measure(ctx, statement("measure"), s.queue, s.groupOrNull())
}

// MeasureUpTo is Measure for alerts, cheap enough to ask each second whatever the backlog: it counts n jobs and n dead
// letters at most, and says More if there are others. 0 and negative mean 1,000, which takes some milliseconds.
//
// With More, OldestAt and DueSince are the earliest among the jobs that were counted and the n oldest of the schema. So
// OldestAt is that of Measure, unless n jobs of other queues or groups are older, or the oldest was redriven or moved.
// DueSince may be later than that of Measure, or zero: n older jobs that were delayed or have failed hide one behind
// them that has been due for longer.
func (s Scope) MeasureUpTo(ctx context.Context, n int) (Depth, error) {
	n = min(cmp.Or(max(n, 0), 1000), math.MaxInt32-1) // one more is looked for
	from, to := "", "\U0010FFFF"                      // no id is printable and higher
	if s.level == ofGroup {
		from, to = s.group, s.group
	}
	return s.measure(ctx, statement("measure_some"), s.queue, from, to, n)
}

func (s Scope) measure(ctx context.Context, sql string, args ...any) (d Depth, err error) {
	var oldest, due *time.Time
	err = s.read(ctx, "measure", sql, into(&d.Jobs, &d.Groups, &d.DeadLetters, &oldest, &due, &d.More), args...)
	if err != nil {
		return Depth{}, err
	}
	d.OldestAt, d.DueSince = orZero(oldest), orZero(due)
	return d, nil
}
