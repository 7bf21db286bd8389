package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/killbench"
)

// sessions compares the lease of a session (fifo.Settings.SessionLease) with the default one, which is a transaction
// for each job.
type sessions struct {
	crowd, crowdLanes int           // jobs at once; lanes of the default lease, to see what memory one needs
	takes             time.Duration // each of the crowd

	long, groups, drain int           // jobs that run all the time; of short ones: groups, and those there at the end
	rate                float64       // arrivals of short jobs per second in a queue beside them
	measure             time.Duration // how long they run

	jobs, rounds, lanes int   // that do nothing, for each system in all rounds; jobs at once with the default lease
	atOnce              []int // jobs at once with the session lease

	killed, few, kills int // jobs that run in the process that is killed, or fewer; and how often
}

// survivors are processes with room for the jobs of one that is killed.
const survivors = 2

const defaultLease, sessionLease = "default lease", "session lease"

// leaseName is that of either.
func leaseName(session bool) string {
	if session {
		return sessionLease
	}
	return defaultLease
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
	var base *system
	var contests []contest
	var others []*system
	tell := func(r *Result, rates rounds) {
		for _, other := range others {
			if rates.ratio(other, base) > r.Ratio {
				return
			}
		}
		r.Goal = atLeast(0.5)
	}
	for _, n := range append([]int{0}, s.atOnce...) {
		c := &crew{db: b.database, groups: s.groups, lanes: s.lanes, atOnce: n}
		sys, err := c.system(ctx, "no-op, "+leaseName(n > 0), 1)
		if err != nil {
			return err
		}
		sys.params = map[string]any{"at_once": cmp.Or(n, s.lanes)}
		if base == nil {
			base, contests = sys, []contest{{system: sys}}
			continue
		}
		others = append(others, sys)
		contests = append(contests, contest{system: sys, to: base, fill: tell})
	}
	return hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), contests)
}

// kill measures from the SIGKILL of a process that runs many jobs to the starts of their second attempts, which go on.
// Of the default lease it kills fewer: each of them is a connection, and the survivors have as many.
func (s *sessions) kill(ctx context.Context, b *bench) error {
	client := fifo.Open(b.pool, nil)
	defer func() { _ = client.Close() }()
	cases := []struct {
		session, goOn bool
		jobs, kills   int
		goal          goals
	}{
		{false, false, s.few, s.kills, nil},
		{false, true, s.few, 1, nil},
		{true, true, s.few, s.kills, nil},
		{true, true, s.killed, s.kills, atMost(1000, "p99_ms")},
	}
	for i, k := range cases {
		r := Result{
			System: "killed, " + leaseName(k.session), Goal: k.goal,
			Params: map[string]any{"running": k.jobs, "go_on": k.goOn},
		}
		h := newHistogram()
		for n := range k.kills {
			cfg := killbench.Config{
				URL: b.url, Queue: fmt.Sprintf("kill-%d-%d", i, n), Session: k.session, Jobs: k.jobs,
				Survivors: survivors, GoOn: k.goOn, Logf: b.progressf,
			}
			if err := client.Queue(cfg.Queue).Configure(ctx, fifo.Settings{SessionLease: k.session}); err != nil {
				return err
			}
			recoveries, err := killbench.RunCrowd(ctx, cfg)
			if err != nil {
				return err
			}
			for _, d := range recoveries {
				h.record(d)
			}
		}
		r.Extra = map[string]float64{"kills": float64(k.kills), "recovered": float64(h.TotalCount())}
		r.latencies(h)
		b.report(r)
	}
	return nil
}
