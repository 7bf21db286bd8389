package main

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A subject is a system that is kept busy for some time.
type subject struct {
	name    string
	prepare func(context.Context) error
	fill    func(ctx context.Context, n int) error
	run     func(ctx context.Context, meanwhile func(context.Context) error) error
	done    func() int64           // jobs worked so far
	claims  func(s statement) bool // which statements take jobs
	atEnd   func(context.Context) error
	goal    goals
	grouped bool // by the groups and lanes of the scenario

	added int64
}

// rivalSubject is a rival as a subject. claims tells the statements that take its jobs.
func rivalSubject(r rival, claims func(s statement) bool) *subject {
	var done atomic.Int64
	return &subject{
		name: r.name(), prepare: r.prepare, fill: r.fill, done: done.Load, claims: claims,
		run: func(ctx context.Context, meanwhile func(context.Context) error) error {
			return r.run(ctx, func(int64) { done.Add(1) }, meanwhile)
		},
	}
}

func (sub *subject) add(ctx context.Context, n int) error {
	sub.added += int64(n)
	return sub.fill(ctx, n)
}

// fed runs a producer beside f, which keeps about depth jobs waiting.
func (sub *subject) fed(ctx context.Context, depth int, f func(context.Context) error) error {
	return beside(ctx, f, func(over context.Context) error {
		for over.Err() == nil {
			if missing := int64(depth) - (sub.added - sub.done()); missing >= int64(depth/8) {
				if err := sub.add(context.WithoutCancel(over), int(missing)); err != nil { // to its end, over or not
					return err
				}
			}
			_ = pause.For(over, 5*time.Millisecond)
		}
		return nil
	})
}

// beside runs f, and another beside it whose context ends with f.
func beside(ctx context.Context, f, other func(context.Context) error) error {
	eg, ctx := errgroup.WithContext(ctx)
	over, stop := context.WithCancel(ctx)
	eg.Go(func() error { return other(over) })
	eg.Go(func() error {
		defer stop()
		return f(ctx)
	})
	return eg.Wait()
}
