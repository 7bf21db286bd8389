package main

import (
	"context"

	"github.com/pgfifo/pgfifo/internal/killbench"
)

// recovery measures from the SIGKILL of a worker to the next start of the job that it had.
type recovery struct {
	kills, survivors, lanes int
}

func (s *recovery) run(ctx context.Context, b *bench) error {
	report, err := killbench.Run(ctx, killbench.Config{
		URL: b.url, Kills: s.kills, Survivors: s.survivors, Lanes: s.lanes, Logf: b.progressf,
	})
	if err != nil {
		return err
	}
	h := newHistogram()
	for _, d := range report.Recoveries {
		h.record(d)
	}
	r := Result{
		System: "pgfifo", Params: map[string]any{"survivors": s.survivors, "lanes": s.lanes},
		Extra: map[string]float64{
			"kills": float64(report.Kills), "recovered": float64(len(report.Recoveries)),
		},
	}
	r.latencies(h)
	b.report(r)
	return nil
}
