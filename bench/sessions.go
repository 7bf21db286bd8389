package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/killbench"
)

// sessions compares the lease of a session (fifo.Settings.SessionLease) with the default one, which is a transaction
// for each job.
type sessions struct {
	crowd, connections, crowdLanes int
	takes                          time.Duration

	long, groups, drain int
	rate                float64
	measure             time.Duration

	jobs, rounds, lanes int
	atOnce              string

	killed, few, kills, survivors int
}

const defaultLease, sessionLease = "default lease", "session lease"

func (s *sessions) flags(f *flag.FlagSet) {
	f.IntVar(&s.crowd, "crowd", 5000, "crowd: jobs at once")
	f.DurationVar(&s.takes, "takes", 30*time.Second, "crowd: how long each of them takes")
	f.IntVar(&s.connections, "connections", 20, "crowd: connections of the process, its client's pool included")
	f.IntVar(&s.crowdLanes, "crowd-lanes", 200, "crowd: lanes of the default lease, to see what memory one needs")
	f.IntVar(&s.long, "long", 50, "long: jobs that run all the time")
	f.DurationVar(&s.measure, "for", 2*time.Minute, "long: how long they run")
	f.Float64Var(&s.rate, "rate", 500, "long: arrivals of short jobs per second in a queue beside them")
	f.IntVar(&s.groups, "groups", 1000, "long, rate: message groups of the short jobs")
	f.IntVar(&s.drain, "drain", 40_000, "long: short jobs that are there at once at the end")
	f.IntVar(&s.jobs, "jobs", 60_000, "rate: jobs that do nothing, for each system in all rounds together")
	f.IntVar(&s.rounds, "rounds", 3, "rate: rounds")
	f.IntVar(&s.lanes, "lanes", 16, "long, rate: jobs at once with the default lease; lanes with the other")
	f.StringVar(&s.atOnce, "at-once", "16,100,400", "rate: jobs at once with the session lease")
	f.IntVar(&s.killed, "killed", 1000, "kill: jobs that run in the process that is killed")
	f.IntVar(&s.few, "few", 50, "kill: the same with the default lease: each is a connection")
	f.IntVar(&s.kills, "kills", 5, "kill: how often")
	f.IntVar(&s.survivors, "survivors", 2, "kill: other processes, with room for these jobs together")
}

func (s *sessions) run(ctx context.Context, b *bench) error {
	for _, part := range []func(context.Context, *bench) error{s.gather, s.besideLong, s.noops, s.kill} {
		if err := part(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

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
		sys, err := c.system(ctx, "no-op, "+defaultLease, fmt.Sprintf("sessions_rate_%d", n), 1)
		if err != nil {
			return err
		}
		sys.params = map[string]any{"at_once": s.lanes}
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

// kill measures from the SIGKILL of a process that runs many jobs to the starts of their second attempts, which go on.
// Of the default lease it kills fewer: each of them is a connection, and the survivors have as many.
func (s *sessions) kill(ctx context.Context, b *bench) error {
	client := fifo.Open(b.pool, nil)
	defer func() { _ = client.Close() }()
	few := min(s.few, s.killed)
	cases := []struct {
		session, goOn bool
		jobs, kills   int
		goal          goals
	}{
		{false, false, few, s.kills, nil},
		{false, true, few, 1, nil},
		{true, true, few, s.kills, nil},
		{true, true, s.killed, s.kills, atMost(1000, "p99_ms")},
	}
	for i, k := range cases {
		r := Result{
			System: "killed, " + defaultLease, Params: map[string]any{"running": k.jobs, "go_on": k.goOn}, Goal: k.goal,
		}
		if k.session {
			r.System = "killed, " + sessionLease
		}
		h := newHistogram()
		for n := range k.kills {
			cfg := killbench.CrowdConfig{
				URL: b.url, Queue: fmt.Sprintf("kill-%d-%d", i, n), Session: k.session, Jobs: k.jobs,
				Survivors: s.survivors, GoOn: k.goOn, Logf: b.notef,
			}
			if err := client.Queue(cfg.Queue).Configure(ctx, fifo.Settings{SessionLease: k.session}); err != nil {
				return err
			}
			report, err := killbench.RunCrowd(ctx, cfg)
			if err != nil {
				return err
			}
			for _, d := range report.Recoveries {
				record(h, d)
			}
		}
		r.Extra = map[string]float64{
			"kills": float64(k.kills), "recovered": float64(h.TotalCount()), "max_ms": millis(h.Max()),
		}
		r.quantiles(h)
		b.report(r)
	}
	return nil
}
