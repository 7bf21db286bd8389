package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/pgfifo/pgfifo/fifo"
)

// relaxed has jobs that do nothing, of one group and of many, completed with and without waiting for a slow disk.
type relaxed struct {
	jobs, rounds int
}

func (s *relaxed) flags(f *flag.FlagSet) {
	f.IntVar(&s.jobs, "jobs", 10_000, "jobs of each system in all rounds together; those that are faster do more")
	f.IntVar(&s.rounds, "rounds", 3, "rounds")
}

func (s *relaxed) run(ctx context.Context, b *bench) error {
	var contests []contest
	for _, shape := range []struct{ groups, lanes, times int }{{1, 1, 1}, {1000, 16, 4}} {
		var waits *system
		for _, relax := range []bool{false, true} {
			c := &crew{db: b.database, groups: shape.groups, lanes: shape.lanes, queue: fifo.Queue{Relaxed: relax}}
			if err := c.own(ctx, fmt.Sprintf("relaxed_%d_%t", shape.lanes, relax)); err != nil {
				return err
			}
			sys := &system{
				name: "pgfifo", work: times(shape.times, c.drain),
				params: map[string]any{"groups": shape.groups, "lanes": shape.lanes, "relaxed": relax},
			}
			one := contest{system: sys, to: waits}
			if waits == nil {
				waits = sys
			} else {
				sys.name += ", relaxed"
			}
			contests = append(contests, one)
		}
	}
	return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), contests)
}
