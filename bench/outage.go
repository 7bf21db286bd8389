package main

import (
	"context"
	"errors"
	"flag"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// outage asks what jobs do while something that all of them need is down, and how soon they are done afterwards: with
// handlers that say Unavailable, and with those that return any error. The goal is 5 seconds until there is full speed.
type outage struct {
	groups, lanes, attempts int // with a job each
	down                    time.Duration
}

func (s *outage) flags(f *flag.FlagSet) { f.DurationVar(&s.down, "for", s.down, "how long it is down") }

func (s *outage) run(ctx context.Context, b *bench) error {
	for _, say := range []string{"Unavailable", "error"} {
		if err := s.suffer(ctx, b, say); err != nil {
			return err
		}
	}
	return nil
}

// suffer measures an outage of which handlers say so, or just fail.
func (s *outage) suffer(ctx context.Context, b *bench, say string) error {
	if err := b.exec(ctx, "TRUNCATE pgfifo.jobs, pgfifo.queue_groups, pgfifo.dead_letters"); err != nil {
		return err
	}
	c := &crew{db: b.database, groups: s.groups, lanes: s.lanes}
	c.prepare()
	if err := c.fill(ctx, s.groups); err != nil {
		return err
	}
	var up atomic.Bool
	var tried atomic.Int64
	worker := &fifo.Worker{Concurrency: s.lanes, MaxAttempts: s.attempts}
	worker.Handle(queue, func(ctx context.Context, job *fifo.Job) error {
		if up.Load() {
			return c.handle(ctx, job)
		}
		tried.Add(1)
		if say == "error" {
			return errors.New("503 Service Unavailable")
		}
		return fifo.Unavailable(nil)
	})
	full, all := 0.0, 0.0
	err := b.employ(ctx, worker, new(fifo.Config), func(ctx context.Context) error {
		err := pause.For(ctx, s.down)
		for err == nil && say == "error" && worker.Stats().Buried == 0 { // the machine is busy, and the run quick
			err = pause.For(ctx, 10*time.Millisecond)
		}
		up.Store(true)
		end := time.Now()
		for done := false; err == nil && !done; {
			err = b.pool.QueryRow(ctx, "SELECT NOT EXISTS (SELECT FROM pgfifo.jobs)").Scan(&done)
			if full == 0 && c.ledger.count.Load() > int64(s.lanes) {
				full = time.Since(end).Seconds()
			}
			err = errors.Join(err, c.ledger.err(), pause.For(ctx, 10*time.Millisecond))
		}
		all = time.Since(end).Seconds()
		return err
	})
	r := Result{System: "pgfifo", Params: map[string]any{"say": say, "groups": s.groups, "for": s.down.String()}}
	r.Extra = map[string]float64{
		"tried": float64(tried.Load()), "tried_per_s": float64(tried.Load()) / s.down.Seconds(), "full_speed_s": full,
		"all_done_s": all, "dead_letters": float64(worker.Stats().Buried),
	}
	if say == "Unavailable" {
		r.Goal = append(atMost(6, "full_speed_s"), atMost(0, "dead_letters")...)
	}
	b.report(r)
	return err
}
