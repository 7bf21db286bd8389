package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A system is one side of a comparison.
type system struct {
	name   string
	params map[string]any
	// work does n units and says how long they took, without what prepared them.
	work func(ctx context.Context, n int) (time.Duration, error)
}

// rounds are the rates of the systems, in units per second, by round.
type rounds map[*system][]float64

// alternate has every system do n units in each round, one after the other. Every second round goes the other way, so
// that none is always the first after a pause.
func alternate(ctx context.Context, count, n int, systems []*system) (rounds, error) {
	rates := make(rounds)
	for i := range count {
		order := slices.Clone(systems)
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			took, err := s.work(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", s.name, i+1, err)
			}
			rates[s] = append(rates[s], float64(n)/took.Seconds())
		}
	}
	return rates, nil
}

// rate is a system's median.
func (r rounds) rate(s *system) float64 { return median(r[s]) }

// ratio is the median of the quotients of each round: the two ran next to each other.
func (r rounds) ratio(s, to *system) float64 {
	quotients := make([]float64, len(r[s]))
	for i := range quotients {
		quotients[i] = r[s][i] / r[to][i]
	}
	return median(quotients)
}

// result is the line of a system. With to nil it is compared with nothing.
func (r rounds) result(s, to *system) Result {
	res := Result{System: s.name, Params: s.params, Rate: r.rate(s)}
	if to != nil {
		res.RatioTo, res.Ratio = to.name, r.ratio(s, to)
	}
	return res
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	mid := len(v) / 2
	if len(v)%2 == 1 {
		return v[mid]
	}
	return (v[mid-1] + v[mid]) / 2
}

// A contest is a line of the table: a system beside another, if there is one, and what is to come of it.
type contest struct {
	system, to *system
	goal       goals
	fill       func(r *Result, rates rounds) // in what else there is to tell; may be nil
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
		if c.fill != nil {
			c.fill(&r, rates)
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
