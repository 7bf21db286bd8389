package killbench

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// A CrowdConfig says what RunCrowd measures.
type CrowdConfig struct {
	// URL is that of a migrated database. Required.
	URL string
	// Queue is one with nothing in it, whose Settings say by which lease. Required.
	Queue string
	// Session says that the lease is that of a session.
	Session bool
	// Jobs run in the process that is killed, in a group each.
	Jobs int
	// Survivors is how many other processes there are, with room for Jobs together.
	Survivors int
	// GoOn has the second attempts of the jobs go on, too. By default they end at once.
	GoOn bool
	// Logf is told of the progress.
	Logf func(format string, args ...any)
}

// sessionLanes is the Concurrency of a process whose queue has the lease of a session.
const sessionLanes = 4

// RunCrowd kills a process that runs many jobs, and measures as Run does. No survivor has any other job.
func RunCrowd(ctx context.Context, cfg CrowdConfig) (Report, error) {
	return measure(ctx, Config{URL: cfg.URL, Logf: cfg.Logf}, func(b *bench) error { return b.crowd(ctx, cfg) })
}

// employ starts a process with room for so many jobs.
func (b *bench) employ(ctx context.Context, cfg CrowdConfig, jobs int) error {
	a := assignment{Queue: cfg.Queue, Lanes: jobs, Jobs: jobs, Tx: !cfg.Session && !cfg.GoOn, GoOn: cfg.GoOn}
	if cfg.Session { // one connection holds the groups, and two settle jobs
		a.Lanes = sessionLanes
		return b.start(ctx, a, sessionLanes+5)
	}
	return b.start(ctx, a, jobs+2)
}

// crowd kills one process, and waits until others have started its jobs again.
func (b *bench) crowd(ctx context.Context, cfg CrowdConfig) error {
	if err := b.employ(ctx, cfg, cfg.Jobs); err != nil {
		return err
	}
	if err := b.hold(ctx, cfg.Queue, cfg.Jobs); err != nil {
		return err
	}
	for range cfg.Survivors {
		if err := b.employ(ctx, cfg, (cfg.Jobs+cfg.Survivors-1)/cfg.Survivors); err != nil {
			return err
		}
	}
	if err := pause.For(ctx, 500*time.Millisecond+rand.N(200*time.Millisecond)); err != nil {
		return err
	}
	victim, orphans := b.victim() // the only one that has any
	return b.orphan(ctx, victim, orphans)
}
