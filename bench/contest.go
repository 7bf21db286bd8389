package main

import (
	"context"
	"slices"
	"time"
)

// A contest is a line of the table: a system beside another, if there is one, and what is to come of it.
type contest struct {
	system, to *system
	goal       goals
	extra      func() map[string]float64
}

// hold has the systems of the contests take turns, and reports. A system may be in more than one.
func hold(ctx context.Context, b *bench, count, n int, contests []contest) error {
	var systems []*system
	for _, c := range contests {
		if !slices.Contains(systems, c.system) {
			systems = append(systems, c.system)
		}
	}
	rates, err := alternate(ctx, count, n, systems)
	if err != nil {
		return err
	}
	for _, c := range contests {
		r := rates.result(c.system, c.to)
		r.Goal = c.goal
		if c.extra != nil {
			r.Extra = c.extra()
		}
		b.report(r)
	}
	return nil
}

// A workFunc does n units and says how long they took, as that of a system.
type workFunc = func(ctx context.Context, n int) (time.Duration, error)

// times has a fast system do several times the work: its rounds would be too short to measure.
func times(k int, work workFunc) workFunc {
	return func(ctx context.Context, n int) (time.Duration, error) {
		took, err := work(ctx, n*k)
		return took / time.Duration(k), err
	}
}
