package main

import (
	"context"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// idle counts what a worker asks the server while there is nothing to do.
type idle struct {
	lanes   int
	settle  time.Duration
	measure time.Duration
}

func (s *idle) run(ctx context.Context, b *bench) error {
	if err := b.openStatements(ctx); err != nil {
		return err
	}
	for _, pollOnly := range []bool{false, true} {
		perSecond, err := s.count(ctx, b, pollOnly)
		if err != nil {
			return err
		}
		b.report(Result{
			System: "pgfifo", Params: map[string]any{"lanes": s.lanes, "poll_only": pollOnly},
			Extra: map[string]float64{"statements_per_s": perSecond}, Goal: atMost(2, "statements_per_s"),
		})
	}
	return nil
}

func (s *idle) count(ctx context.Context, b *bench, pollOnly bool) (perSecond float64, err error) {
	c := &crew{db: b.database, groups: 1, lanes: s.lanes, pollOnly: pollOnly}
	c.prepare()
	err = c.run(ctx, nil, func(ctx context.Context) error {
		if err := c.connected(ctx); err != nil {
			return err
		}
		if err := pause.For(ctx, s.settle); err != nil {
			return err
		}
		if err := b.resetStatements(ctx); err != nil {
			return err
		}
		begin := time.Now()
		if err := pause.For(ctx, s.measure); err != nil {
			return err
		}
		list, err := b.statements(ctx)
		took := time.Since(begin)
		calls := int64(0)
		for _, st := range list {
			calls += st.Calls
		}
		perSecond = float64(calls) / took.Seconds()
		return err
	})
	return perSecond, err
}
