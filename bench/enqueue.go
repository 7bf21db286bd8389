package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// enqueue measures how many messages a second are added: one in a call, where the commit is the price, and many, where
// the rows are.
type enqueue struct {
	mix, variants string
	window        time.Duration
	groups, held  int
	rounds        int
}

func (s *enqueue) flags(f *flag.FlagSet) {
	f.StringVar(&s.mix, "mix", "1x1,1x8,1x32,100x8,10000x1,10000x4,100000x1", "messages per call x producers")
	f.StringVar(&s.variants, "variants", "1x8,10000x1",
		"of these, which also in transactions, into new and held groups, and without notifications")
	f.DurationVar(&s.window, "for", time.Second, "time of each system in a round")
	f.IntVar(&s.groups, "groups", 1000, "idle groups")
	f.IntVar(&s.held, "held", 16, "groups that a worker holds, for the messages into held groups")
	f.IntVar(&s.rounds, "rounds", 5, "rounds")
}

func (s *enqueue) quick() {
	s.mix, s.variants, s.window, s.rounds = "1x8,100x8,10000x1", "", 200*time.Millisecond, 2
}

func (s *enqueue) run(ctx context.Context, b *bench) error {
	loads, err := parseLoads(s.mix)
	if err != nil {
		return err
	}
	varied, err := parseLoads(s.variants)
	if err != nil {
		return err
	}
	if err := preparePlain(ctx, b.database); err != nil {
		return err
	}
	if err := newRiver(b.database, false).prepare(ctx); err != nil {
		return fmt.Errorf("prepare River: %w", err)
	}
	for _, l := range loads {
		if err := s.compare(ctx, b, l, slices.Contains(varied, l)); err != nil {
			return fmt.Errorf("%v: %w", l, err)
		}
	}
	return nil
}

// compare measures one load, with all that is to stand beside it.
func (s *enqueue) compare(ctx context.Context, b *bench, l load, varied bool) error {
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
	if varied {
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

func (l load) String() string { return fmt.Sprintf("%dx%d", l.messages, l.producers) }

func (l load) params() map[string]any {
	return map[string]any{"messages": l.messages, "producers": l.producers}
}

func parseLoads(list string) ([]load, error) {
	var loads []load
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		var l load
		if n, err := fmt.Sscanf(text, "%dx%d", &l.messages, &l.producers); n != 2 || err != nil ||
			l.messages < 1 || l.producers < 1 {
			return nil, fmt.Errorf("load %q: not messages x producers, such as 100x8", text)
		}
		loads = append(loads, l)
	}
	if len(loads) == 0 && list != "" {
		return nil, errors.New("no loads")
	}
	return loads, nil
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
	if err != nil {
		return 0, calls, err
	}
	return time.Duration(float64(took) * rateUnits / float64(calls*int64(l.messages))), calls, nil
}
