package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// drain compares jobs that do nothing: one per transaction with the ceiling, as many one-row updates per commit as the
// server takes; batches with a queue that fetches and completes in batches.
type drain struct {
	jobs, groups, lanes, rounds int
	naive                       time.Duration
}

func (d *drain) flags(f *flag.FlagSet) {
	f.IntVar(&d.jobs, "jobs", 200_000, "jobs, in all rounds together; batches and River do several times as many")
	f.IntVar(&d.groups, "groups", 1000, "message groups")
	f.IntVar(&d.lanes, "lanes", 16,
		"jobs at once, connections of the ceiling, topics of Watermill; not River's, which has its best settings")
	f.IntVar(&d.rounds, "rounds", 5, "rounds")
	f.DurationVar(&d.naive, "naive", 5*time.Second,
		"the time after which a round of naive is stopped; 0: without naive")
}

func (d *drain) run(ctx context.Context, b *bench) error {
	if err := prepareCeiling(ctx, b.database); err != nil {
		return err
	}
	inGo := d.system("ceiling (Go)", (&goCeiling{db: b.database, lanes: d.lanes}).work)
	ceiling := inGo
	if program := findPgbench(); program != "" {
		ceiling = d.system("ceiling (pgbench)", (&pgbench{b.database, d.lanes, program}).work)
	} else {
		b.notef("pgbench is not there: without its ceiling")
	}
	fast, held := newRiver(b.database, true), newWatermill(b.database, d.lanes)
	poc := newNaive(b.database, d.groups, d.lanes)
	for _, r := range []rival{fast, held, poc} {
		if err := r.prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name(), err)
		}
	}
	inRiver := d.system(fast.name(), times(2, drainRival(b.database, fast, 0)))

	var one *system
	var contests []contest
	for _, p := range []struct {
		name  string
		queue fifo.Queue
		times int // so much more work, or its rounds are too short to measure
		to    *system
		goal  goals
		alone bool // each job in a group of its own
	}{
		{"pgfifo", fifo.Queue{}, 1, ceiling, atLeast(0.6), false},
		{"pgfifo, batches of 10", fifo.Queue{BatchJobs: 10}, 3, inRiver, atLeast(3), false},
		{"pgfifo, batches of 50", fifo.Queue{BatchJobs: 50}, 6, inRiver, atLeast(6), false},
		{"pgfifo, 10 groups at once", fifo.Queue{BatchGroups: 10}, 3, inRiver, nil, false},
		{"pgfifo, 50 groups at once", fifo.Queue{BatchGroups: 50}, 3, inRiver, nil, false},
		{"pgfifo, 50 ungrouped at once", fifo.Queue{BatchGroups: 50}, 2, inRiver, atLeast(1), true},
	} {
		groups := d.groups
		if p.alone {
			groups = p.times*d.jobs + d.rounds*p.times
		}
		c := &crew{db: b.database, groups: groups, lanes: d.lanes, queue: p.queue}
		s, err := c.system(ctx, p.name, fmt.Sprintf("drain_%d", len(contests)), p.times)
		if err != nil {
			return err
		}
		s.params = d.params()
		if one == nil {
			one = s
		}
		contests = append(contests, contest{system: s, to: p.to, goal: p.goal})
	}
	contests = append(contests, contest{system: ceiling}, contest{system: inRiver, to: one},
		contest{system: d.system(held.name(), drainRival(b.database, held, 0)), to: one})
	if inGo != ceiling {
		contests = append(contests, contest{system: one, to: inGo}, contest{system: inGo, to: ceiling})
	}
	if d.naive > 0 {
		contests = append(contests, contest{
			system: d.system(poc.name(), poc.drain(d.naive)), to: one, extra: poc.extra,
		})
	}
	return hold(ctx, b, d.rounds, max(d.jobs/d.rounds, 1), contests)
}

func (d *drain) system(name string, work workFunc) *system {
	return &system{name: name, params: d.params(), work: work}
}

func (d *drain) params() map[string]any { return map[string]any{"groups": d.groups, "lanes": d.lanes} }

// system makes tables of its own for a crew, and is it as a system that does so many times the work of others.
func (c *crew) system(ctx context.Context, name, schema string, k int) (*system, error) {
	params := map[string]any{"groups": c.groups, "lanes": c.lanes}
	return &system{name: name, params: params, work: times(k, c.drain)}, c.own(ctx, schema)
}

// drain works n jobs that are all there at the beginning.
func (c *crew) drain(ctx context.Context, n int) (time.Duration, error) {
	if err := errors.Join(c.fill(ctx, n), c.db.flush(ctx)); err != nil {
		return 0, err
	}
	return c.work(ctx, n)
}
