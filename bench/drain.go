package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// drain compares jobs that do nothing: one per transaction with the ceiling, as many one-row updates per commit as the
// server takes; batches with a queue that fetches and completes in batches.
type drain struct {
	jobs, groups, rounds int           // batches and River do several times as many jobs
	lanes                int           // also of the ceilings, and topics of Watermill; River has its best settings
	naive                time.Duration // after which a round of naive is stopped
}

func (d *drain) run(ctx context.Context, b *bench) error {
	if err := prepareCeiling(ctx, b.database); err != nil {
		return err
	}
	inGo := d.system("ceiling (Go)", (&goCeiling{db: b.database, lanes: d.lanes}).work)
	ceiling := inGo
	if program := b.findPgbench(); program != "" {
		ceiling = d.system("ceiling (pgbench)", (&pgbench{b.database, d.lanes, program}).work)
	}
	fast, held := newRiver(b.database, true), newWatermill(b.database, d.lanes)
	poc := newNaive(b.database, d.groups, d.lanes)
	for _, r := range []rival{fast, held, poc} {
		if err := r.prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name(), err)
		}
	}
	inRiver := d.system(fast.name(), times(2, drainRival(b.database, fast, 0)))

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
		c := &crew{db: b.database, groups: d.groups, lanes: d.lanes, queue: p.queue}
		if p.alone {
			c.groups = p.times*d.jobs + d.rounds*p.times
		}
		s, err := c.system(ctx, p.name, p.times)
		if err != nil {
			return err
		}
		s.params["groups"] = d.groups
		contests = append(contests, contest{system: s, to: p.to, goal: p.goal})
	}
	one := contests[0].system
	contests = append(contests, contest{system: ceiling}, contest{system: inRiver, to: one},
		contest{system: d.system(held.name(), drainRival(b.database, held, 0)), to: one})
	if inGo != ceiling {
		contests = append(contests, contest{system: one, to: inGo}, contest{system: inGo, to: ceiling})
	}
	contests = append(contests, contest{
		system: d.system(poc.name(), poc.drain(d.naive)), to: one, fill: poc.tell,
	})
	return hold(ctx, b, d.rounds, max(d.jobs/d.rounds, 1), contests)
}

func (d *drain) system(name string, work workFunc) *system {
	return &system{name: name, params: map[string]any{"groups": d.groups, "lanes": d.lanes}, work: work}
}
