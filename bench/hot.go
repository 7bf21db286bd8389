package main

import (
	"context"

	"github.com/pgfifo/pgfifo/fifo"
)

// hot has all jobs in one group: one at a time, so that each waits for the commit of the one before. What is left to
// win is the time between two commits; or fewer of them, by batches.
type hot struct {
	jobs, rounds int // in all rounds together; batches do five times as many
}

func (s *hot) run(ctx context.Context, b *bench) error {
	one, err := (&crew{db: b.database, groups: 1, lanes: 1}).system(ctx, "pgfifo", 1)
	if err != nil {
		return err
	}
	tens := &crew{db: b.database, groups: 1, lanes: 1, queue: fifo.Queue{BatchJobs: 10}}
	ten, err := tens.system(ctx, "pgfifo, batches of 10", 5)
	if err != nil {
		return err
	}
	inGo := &bareGo{bare{db: b.database}}
	if err := inGo.prepare(ctx); err != nil {
		return err
	}
	bareOne := &system{name: "the same transaction (Go)", params: one.params, work: inGo.work}
	program := b.findPgbench()
	if program == "" {
		return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), []contest{
			{system: one, to: bareOne, goal: atLeast(0.8)}, {system: ten, to: one, goal: atLeast(5)}, {system: bareOne},
		})
	}
	inC := &barePgbench{bare{db: b.database}, program}
	if err := inC.prepare(ctx); err != nil {
		return err
	}
	pgbench := &system{name: "the same transaction (pgbench)", params: one.params, work: inC.work}
	return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), []contest{
		{system: one, to: pgbench, goal: atLeast(0.8)},
		{system: ten, to: one, goal: atLeast(5)},
		{system: one, to: bareOne},
		{system: pgbench},
		{system: bareOne, to: pgbench},
	})
}
