package main

import (
	"context"
	"fmt"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/killbench"
)

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
