package main

import (
	"context"
	"fmt"
)

// noops has jobs that do nothing worked by both leases, one after the other. The goal is for the number of jobs at once
// that is best.
func (s *sessions) noops(ctx context.Context, b *bench) error {
	list, err := numbers("at-once", s.atOnce, 1)
	if err != nil {
		return err
	}
	var systems []*system
	for _, n := range append([]int{0}, list...) {
		c := &crew{db: b.database, groups: s.groups, lanes: s.lanes, atOnce: n}
		if err := c.own(ctx, fmt.Sprintf("sessions_rate_%d", n)); err != nil {
			return err
		}
		sys := &system{name: "no-op, " + defaultLease, work: c.drain, params: map[string]any{"at_once": s.lanes}}
		if n > 0 {
			sys.name, sys.params = "no-op, "+sessionLease, map[string]any{"at_once": n}
		}
		systems = append(systems, sys)
	}
	rates, err := alternate(ctx, s.rounds, max(s.jobs/s.rounds, 1), systems)
	if err != nil {
		return err
	}
	b.report(rates.result(systems[0], nil))
	best := systems[1]
	for _, sys := range systems[1:] {
		if rates.ratio(sys, systems[0]) > rates.ratio(best, systems[0]) {
			best = sys
		}
	}
	for _, sys := range systems[1:] {
		r := rates.result(sys, systems[0])
		if sys == best {
			r.Goal = atLeast(0.5)
		}
		b.report(r)
	}
	return nil
}
