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
	recoveries, err := killbench.Run(ctx, killbench.Config{
		URL: b.url, Queue: "killbench", Jobs: s.lanes, Survivors: s.survivors, Logf: b.progressf,
	}, s.kills)
	if err != nil {
		return err
	}
	h := newHistogram()
	for _, d := range recoveries {
		h.record(d)
	}
	r := Result{
		System: "pgfifo", Params: map[string]any{"survivors": s.survivors, "lanes": s.lanes},
		Extra: map[string]float64{"kills": float64(s.kills), "recovered": float64(len(recoveries))},
	}
	r.latencies(h)
	b.report(r)
	return nil
}
