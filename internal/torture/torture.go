// Package torture runs producers and workers as real processes, breaks things under them, and proves from what they
// logged, and from what is left in the tables, that no promise of the queue was broken.
//
// Every process appends to an event log of its own, one write a line. Handlers write an effect, and a hash chain for
// each group whose jobs run one after the other, in the job's transaction, and call a sink outside with a fencing
// token. The harness injects faults by a plan that follows from the seed, in step with the jobs and not with the clock,
// so a slow machine runs the same plan. When everything has drained, the checkers read the logs: see check.go for what
// they prove.
//
// The processes are the running program again: it calls Main first of all.
package torture

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// Run tortures the queue as cfg says. The error is of the harness itself; what is wrong with the queue is in the
// report.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	r := &run{
		cfg: cfg, began: time.Now(), log: cfg.Logf,
		leftOut: make(map[string]string), cut: make(map[way]bool), injected: make(map[string]int),
	}
	defer r.close()
	if err := r.open(ctx); err != nil {
		return nil, fmt.Errorf("torture: %w", err)
	}
	if err := r.work(ctx); err != nil {
		return nil, fmt.Errorf("torture: seed %d, artefacts in %s: %w", cfg.Seed, r.dir, err)
	}
	history, err := r.history(ctx)
	if err != nil {
		return nil, fmt.Errorf("torture: seed %d, artefacts in %s: %w", cfg.Seed, r.dir, err)
	}
	report := r.report(history)
	if err := report.write(r.dir); err != nil {
		return report, err
	}
	if len(report.Violations) == 0 && cfg.Dir == "" {
		_ = os.RemoveAll(r.dir) // nobody asked for it
		report.Artefacts = ""
	}
	return report, nil
}

// Main makes the process a worker or a producer of Run, if that is what it was started for, and does not return then.
func Main() {
	text, ok := os.LookupEnv(orderEnv)
	if !ok {
		return
	}
	if err := obey(text); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// until waits for a condition, and reports whether it came true in time.
func until(ctx context.Context, limit time.Duration, cond func() bool) bool {
	for deadline := time.Now().Add(limit); !cond(); {
		if time.Now().After(deadline) || pause.For(ctx, 5*time.Millisecond) != nil {
			return false
		}
	}
	return true
}
