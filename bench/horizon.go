package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"time"
)

// horizon holds a snapshot while jobs pass. Vacuum can remove nothing that the snapshot may still see, so whatever a
// queue reads on its way to the next job stays, dead, for the whole run.
//
// Each system has a snapshot of its own, one system after the other: they cannot alternate under one, because each
// would run among the other's dead rows. What is compared is each system's end with its own beginning.
type horizon struct {
	systems              string        // one after the other; pgfifo-sessions has Settings.SessionLease
	measure, warm, every time.Duration // under the snapshot, before it, and between two points of the series
	groups, lanes        int           // River has its best settings instead
	depth                int           // jobs that the producer keeps waiting
	late                 int           // messages with a lower id that commit late, at pgfifo's end, in either case
}

func (s *horizon) flags(f *flag.FlagSet) {
	f.StringVar(&s.systems, "systems", s.systems, "which of pgfifo, pgfifo-sessions, river and naive, in turn")
	f.DurationVar(&s.measure, "for", s.measure, "time under the snapshot, for each system")
	f.DurationVar(&s.warm, "warm", s.warm, "time before the snapshot")
	f.IntVar(&s.groups, "groups", s.groups, "message groups")
	f.IntVar(&s.late, "late", s.late, "messages with a lower id that commit late, at pgfifo's end")
}

func (s *horizon) run(ctx context.Context, b *bench) error {
	b.tryStatements(ctx)
	b.notef("each system runs under a snapshot of its own, one after the other")
	seconds := axis{label: "seconds under the snapshot"}
	rates := chart{name: "rate", title: "Jobs while a snapshot is held", x: seconds, y: axis{label: "jobs/s"}}
	claims := chart{
		name: "claim", title: "Claims while a snapshot is held", x: seconds,
		y: axis{label: "mean ms of a claim", log: true},
	}
	for _, name := range strings.Split(s.systems, ",") {
		sub, err := s.subject(b, name)
		if err != nil {
			return err
		}
		sp := &span{every: s.every}
		if err := s.observe(ctx, b, sub, sp); err != nil {
			return fmt.Errorf("%s: %w", sub.name, err)
		}
		rates.series = append(rates.series, sp.rates(sub.name))
		claims.series = append(claims.series, sp.claims(sub.name))
	}
	b.plot(rates)
	b.plot(claims)
	return nil
}

// observe runs one system: without the snapshot first, then under it, and what belongs to its end.
func (s *horizon) observe(ctx context.Context, b *bench, sub *subject, sp *span) (err error) {
	if err := sub.prepare(ctx); err != nil {
		return err
	}
	if err := sub.add(ctx, s.depth); err != nil {
		return err
	}
	if err := b.exec(ctx, "VACUUM ANALYZE"); err != nil { // what the system before left behind
		return err
	}
	var snap *snapshot
	defer func() {
		if snap != nil {
			err = errors.Join(err, snap.end())
		}
	}()
	err = sub.run(ctx, func(ctx context.Context) error {
		return sub.fed(ctx, s.depth, func(ctx context.Context) (err error) {
			if err := sp.warm(ctx, sub, s.warm); err != nil {
				return err
			}
			if snap, err = holdSnapshot(ctx, b.url); err != nil {
				return err
			}
			return sp.follow(ctx, b, sub, s.measure)
		})
	})
	if err != nil {
		return err
	}
	if err := sp.countDead(ctx, b.database); err != nil {
		return err
	}
	r := sp.result(sub.name, map[string]any{"depth": s.depth, "for": s.measure.String()})
	if sub.grouped {
		r.Params["groups"], r.Params["lanes"] = s.groups, s.lanes
	}
	r.Goal = sub.goal
	b.report(r)
	if sub.atEnd == nil {
		return nil
	}
	return sub.atEnd(ctx)
}

// subject returns a system by its name.
func (s *horizon) subject(b *bench, name string) (*subject, error) {
	switch name {
	case "pgfifo":
		return s.pgfifo(b, "pgfifo", 0), nil
	case "pgfifo-sessions":
		return s.pgfifo(b, "pgfifo, sessions", s.lanes), nil
	case "river":
		return rivalSubject(newRiver(b.database, true), takes("river_job")), nil
	case "naive":
		sub := rivalSubject(newNaive(b.database, s.groups, s.lanes), takes("naive.jobs"))
		sub.grouped = true
		return sub, nil
	}
	return nil, fmt.Errorf("no system %q: pgfifo, pgfifo-sessions, river or naive", name)
}

// isClaim tells the statements of the library that take jobs.
func isClaim(st statement) bool { return strings.HasPrefix(st.label(), "Claims ") }

// takes tells the statements that take jobs from a table.
func takes(table string) func(statement) bool {
	return func(st statement) bool {
		return strings.Contains(st.Query, table) && strings.Contains(st.Query, "SKIP LOCKED")
	}
}

// pgfifo is the library, with late messages at the end; or with the lease of a session, for so many jobs at once.
func (s *horizon) pgfifo(b *bench, name string, atOnce int) *subject {
	c := &crew{db: b.database, groups: s.groups + 2*s.late, lanes: s.lanes, atOnce: atOnce}
	all := newTally(math.MaxInt) // in several runs
	work := func(ctx context.Context, meanwhile func(context.Context) error) error {
		return errors.Join(c.run(ctx, all.hooks(), meanwhile), all.err(), c.audit(ctx))
	}
	sub := &subject{
		name: name, grouped: true, fill: c.fill, done: all.count.Load, claims: isClaim,
		prepare: func(ctx context.Context) error {
			defer func() { c.groups = s.groups }() // the others are for late messages
			return c.own(ctx)
		},
		run: work,
	}
	if atOnce > 0 {
		return sub
	}
	sub.goal = atLeast(0.9)
	sub.atEnd = func(ctx context.Context) error {
		for i, pollOnly := range []bool{false, true} {
			if s.late == 0 {
				break
			}
			c.pollOnly = pollOnly
			l := newLatecomers(c, s.groups+i*s.late, s.late)
			c.others += l.messages()
			sub.added += l.messages()
			if err := work(ctx, func(ctx context.Context) error { return sub.fed(ctx, s.depth, l.send) }); err != nil {
				return fmt.Errorf("late messages: %w", err)
			}
			b.report(l.result())
		}
		return nil
	}
	return sub
}
