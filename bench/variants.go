package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// groupLimit has one group whose jobs take a while, one at a time and several at once; and many groups whose jobs do
// nothing, which win nothing by that, and are ten times as many.
type groupLimit struct {
	jobs, rounds int
	takes        time.Duration
}

func (s *groupLimit) run(ctx context.Context, b *bench) error {
	var contests []contest
	handler := func(ctx context.Context, _ *fifo.Job) error { return pause.For(ctx, s.takes) }
	for _, shape := range []struct {
		name          string
		groups, times int
		handler       fifo.Handler
		limits        []int
	}{
		{"one group", 1, 1, handler, []int{1, 4, 16}},
		{"1000 groups", 1000, 10, nil, []int{1, 4}},
	} {
		var alone *system
		for _, limit := range shape.limits {
			c := &crew{db: b.database, groups: shape.groups, lanes: 16, handler: shape.handler, several: limit}
			sys, err := c.system(ctx, fmt.Sprintf("%s, GroupLimit %d", shape.name, limit), shape.times)
			if err != nil {
				return err
			}
			contests = append(contests, contest{system: sys, to: alone})
			if alone == nil {
				alone = sys
			}
		}
	}
	return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), contests)
}

// relaxed has jobs that do nothing, of one group and of many, completed with and without waiting for a slow disk. Many
// groups do more of them.
type relaxed struct {
	jobs, rounds int
}

func (s *relaxed) run(ctx context.Context, b *bench) error {
	var contests []contest
	for _, shape := range []struct{ groups, lanes, times int }{{1, 1, 1}, {1000, 16, 4}} {
		var waits *system
		for _, name := range []string{"pgfifo", "pgfifo, relaxed"} {
			relax := waits != nil
			c := &crew{db: b.database, groups: shape.groups, lanes: shape.lanes, queue: fifo.Queue{Relaxed: relax}}
			sys, err := c.system(ctx, name, shape.times)
			if err != nil {
				return err
			}
			sys.params["relaxed"] = relax
			contests = append(contests, contest{system: sys, to: waits})
			waits = sys
		}
	}
	return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), contests)
}
