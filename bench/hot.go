package main

import (
	"context"
	"flag"

	"github.com/pgfifo/pgfifo/fifo"
)

// hot has all jobs in one group: one at a time, so that each waits for the commit of the one before. What is left to
// win is the time between two commits; or fewer of them, by batches.
type hot struct {
	jobs, rounds int
}

func (s *hot) flags(f *flag.FlagSet) {
	f.IntVar(&s.jobs, "jobs", 40_000, "jobs, in all rounds together; batches do five times as many")
	f.IntVar(&s.rounds, "rounds", 5, "rounds")
}

func (s *hot) run(ctx context.Context, b *bench) error {
	c := crew{db: b.database, groups: 1, lanes: 1}
	one, err := c.system(ctx, "pgfifo", "hot_one", 1)
	if err != nil {
		return err
	}
	tens := crew{db: b.database, groups: 1, lanes: 1, queue: fifo.Queue{BatchJobs: 10}}
	ten, err := tens.system(ctx, "pgfifo, batches of 10", "hot_ten", 5)
	if err != nil {
		return err
	}
	inGo := &bareGo{bare{db: b.database, schema: "hot_go"}}
	if err := inGo.prepare(ctx); err != nil {
		return err
	}
	contests := []contest{{system: one, goal: atLeast(0.8)}, {system: ten, to: one, goal: atLeast(5)}}
	bareOne := s.system("the same transaction (Go)", inGo.work)
	if program := findPgbench(); program != "" {
		inC := &barePgbench{bare{db: b.database, schema: "hot_pgbench"}, program}
		if err := inC.prepare(ctx); err != nil {
			return err
		}
		pgbench := s.system("the same transaction (pgbench)", inC.work)
		contests[0].to = pgbench
		contests = append(contests, contest{system: one, to: bareOne}, contest{system: pgbench},
			contest{system: bareOne, to: pgbench})
	} else {
		b.notef("pgbench is not there: the same transaction in Go has its place")
		contests[0].to = bareOne
		contests = append(contests, contest{system: bareOne})
	}
	return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), contests)
}

func (s *hot) system(name string, work workFunc) *system {
	return &system{name: name, params: map[string]any{"groups": 1, "lanes": 1}, work: work}
}
