package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// enqueue measures how many messages a second are added: one in a call, where the commit is the price, and many, where
// the rows are.
type enqueue struct {
	mix, varied  []load        // varied also in transactions, into new and held groups, without notifications
	window       time.Duration // time of each system in a round
	groups, held int           // idle groups, and those that a worker holds
	rounds       int
}

func (s *enqueue) run(ctx context.Context, b *bench) error {
	if err := preparePlain(ctx, b.database); err != nil {
		return err
	}
	if err := newRiver(b.database, false).prepare(ctx); err != nil {
		return fmt.Errorf("prepare River: %w", err)
	}
	for _, l := range s.mix {
		if err := s.compare(ctx, b, l); err != nil {
			return fmt.Errorf("%v: %w", l, err)
		}
	}
	return nil
}

// compare measures one load, with all that is to stand beside it.
func (s *enqueue) compare(ctx context.Context, b *bench, l load) error {
	base := s.pgfifo(b, l, producing{call: "Enqueue"})
	beside, goal := []*system{s.river(b, l)}, atLeast(1.5)
	if l.messages == 1 {
		beside, goal = []*system{s.plain(b, l), s.river(b, l)}, atLeast(0.7)
	}
	var contests []contest
	for _, other := range beside {
		contests = append(contests, contest{system: base, to: other})
	}
	contests[0].goal = goal
	for _, other := range beside {
		contests = append(contests, contest{system: other})
	}
	if slices.Contains(s.varied, l) {
		for _, p := range []producing{
			{call: "EnqueueTx"},
			{call: "EnqueuePgxTx"},
			{call: "InTx"},
			{call: "Enqueue", into: newGroups},
			{call: "Enqueue", into: heldGroups},
			{call: "Enqueue", silent: true},
		} {
			contests = append(contests, contest{system: s.pgfifo(b, l, p), to: base})
		}
	}
	return hold(ctx, b, s.rounds, rateUnits, contests)
}

// A load is what the producers of a measurement do.
type load struct{ messages, producers int }

func (l load) params() map[string]any {
	return map[string]any{"messages": l.messages, "producers": l.producers}
}

// rateUnits is the number of messages for which a round says how long they took, whatever was sent in its time.
const rateUnits = 1000

// burst has every producer call again and again until the window is over, and says how long rateUnits messages took.
func (l load) burst(ctx context.Context, window time.Duration, call func(ctx context.Context, producer int) error) (
	each time.Duration, calls int64, err error,
) {
	eg, ctx := errgroup.WithContext(ctx)
	counts := make([]int64, l.producers)
	begin := time.Now()
	for p := range l.producers {
		eg.Go(func() error {
			for counts[p] == 0 || time.Since(begin) < window {
				if err := call(ctx, p); err != nil {
					return err
				}
				counts[p]++
			}
			return nil
		})
	}
	err = eg.Wait()
	took := time.Since(begin)
	for _, n := range counts {
		calls += n
	}
	return time.Duration(float64(took) * rateUnits / float64(calls*int64(l.messages))), calls, err
}
