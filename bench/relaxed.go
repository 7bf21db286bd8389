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

func (*relaxed) about() string {
	return "completions that do not wait for a disk whose flush takes 2 ms, against those that do"
}

func (s *relaxed) flags(f *flag.FlagSet) {
	f.IntVar(&s.jobs, "jobs", 10_000, "jobs of each system in all rounds together; those that are faster do more")
	f.IntVar(&s.rounds, "rounds", 3, "rounds")
}

// settings make a commit that waits for the disk wait 2 ms longer, and take with it all that come meanwhile: a slow
// flush does the same. One that does not wait for the disk is not held up by either.
func (*relaxed) settings() map[string]string {
	return map[string]string{"commit_delay": "2000", "commit_siblings": "0"}
}

func (s *relaxed) run(ctx context.Context, b *bench) error {
	var contests []contest
	for _, shape := range []struct{ groups, lanes, times int }{{1, 1, 1}, {1000, 16, 4}} {
		var waits *system
		for _, relax := range []bool{false, true} {
			schema := fmt.Sprintf("relaxed_%d_%t", shape.lanes, relax)
			c := &crew{
				db: b.database, schema: schema, groups: shape.groups, lanes: shape.lanes,
				queue: fifo.Queue{Relaxed: relax},
			}
			c.prepare()
			if err := migrate(ctx, b.pool, schema); err != nil {
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
