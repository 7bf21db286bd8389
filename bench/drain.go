package main

import (
	"context"
	"flag"
	"time"
)

// drain compares one job per transaction with the ceiling: as many one-row updates per commit as the server takes.
type drain struct {
	jobs, groups, lanes, rounds int
}

func (*drain) about() string {
	return "jobs that do nothing, against the ceiling of one commit per job"
}

func (d *drain) flags(f *flag.FlagSet) {
	f.IntVar(&d.jobs, "jobs", 200_000, "jobs, in all rounds together")
	f.IntVar(&d.groups, "groups", 1000, "message groups")
	f.IntVar(&d.lanes, "lanes", 16, "jobs at once, and connections of the ceiling")
	f.IntVar(&d.rounds, "rounds", 5, "rounds")
}

func (*drain) settings() map[string]string { return nil }

func (d *drain) run(ctx context.Context, b *bench) error {
	if err := prepareCeiling(ctx, b.database); err != nil {
		return err
	}
	c := &crew{db: b.database, groups: d.groups, lanes: d.lanes}
	c.prepare()
	params := map[string]any{"groups": d.groups, "lanes": d.lanes}
	pgfifo := &system{name: "pgfifo", params: params, work: func(ctx context.Context, n int) (time.Duration, error) {
		if err := c.fill(ctx, n); err != nil {
			return 0, err
		}
		return c.work(ctx, n)
	}}
	inGo := &system{name: "ceiling (Go)", params: params, work: (&goCeiling{b.database, d.lanes}).work}
	systems := []*system{pgfifo, inGo}
	var inC *system
	if program := findPgbench(); program != "" {
		inC = &system{name: "ceiling (pgbench)", params: params, work: (&pgbench{b.database, d.lanes, program}).work}
		systems = append(systems, inC)
	} else {
		b.notef("pgbench is not there: without its ceiling")
	}
	rates, err := alternate(ctx, b, d.rounds, max(d.jobs/d.rounds, 1), systems)
	if err != nil {
		return err
	}
	b.report(rates.result(pgfifo, inGo))
	if inC != nil {
		b.report(rates.result(pgfifo, inC))
		b.report(rates.result(inC, nil))
	}
	b.report(rates.result(inGo, inC))
	return nil
}
