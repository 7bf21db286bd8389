package main

import (
	"context"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/killbench"
)

// fewKilled is how many jobs the default lease is killed with: each is a connection, and the survivors have as many.
const fewKilled = 50

// kill measures from the SIGKILL of a process that runs many jobs to the starts of their second attempts. These end at
// once, or go on: then a process begins two of them in a second, because each may be what killed the worker.
func (s *sessions) kill(ctx context.Context, b *bench) error {
	client := fifo.Open(b.pool, nil)
	defer func() { _ = client.Close() }()
	few := min(fewKilled, s.killed)
	b.progress.begin(b.scenario+", kill", 5)
	for _, k := range []struct {
		queue       string
		session     bool
		jobs, kills int
		goOn        bool
		goal        goals
	}{
		{"kill-default", false, few, s.kills, false, nil},
		{"kill-few", true, few, s.kills, false, nil},
		{"kill-many", true, s.killed, s.kills, false, atMost(1000, "p99_ms")},
		{"kill-default-on", false, s.goOn, 1, true, nil},
		{"kill-on", true, s.goOn, 1, true, nil},
	} {
		name := "killed, " + defaultLease
		if k.session {
			name = "killed, " + sessionLease
			if err := client.Queue(k.queue).Configure(ctx, fifo.Settings{SessionLease: true}); err != nil {
				return err
			}
		}
		report, err := killbench.RunCrowd(ctx, killbench.CrowdConfig{
			URL: b.url, Queue: k.queue, Session: k.session, Jobs: k.jobs, Kills: k.kills, Survivors: s.survivors,
			GoOn: k.goOn, Logf: b.notef,
		})
		if err != nil {
			return err
		}
		h := newHistogram()
		for _, d := range report.Recoveries {
			record(h, d)
		}
		r := Result{
			System: name, Params: map[string]any{"running": k.jobs, "go_on": k.goOn}, Goal: k.goal,
			Extra: map[string]float64{
				"kills": float64(report.Kills), "recovered": float64(len(report.Recoveries)), "max_ms": millis(h.Max()),
			},
		}
		if k.goOn {
			last := slices.Max(report.Recoveries)
			r.Extra["started_per_s"] = float64(len(report.Recoveries)) / max(last, time.Millisecond).Seconds()
		}
		r.quantiles(h)
		b.report(r)
		b.progress.add()
	}
	return nil
}
