package killbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
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
	victim := b.procs[0]
	orphans, err := b.occupy(ctx, cfg)
	if err != nil {
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
	return b.orphan(ctx, victim, orphans)
}

// occupy has the only process run jobs, which it returns.
func (b *bench) occupy(ctx context.Context, cfg CrowdConfig) (orphans map[int64]bool, err error) {
	var msgs []fifo.Message
	for range cfg.Jobs {
		b.count++
		msgs = append(msgs, fifo.Message{Queue: cfg.Queue, GroupID: fmt.Sprint(b.count)})
	}
	receipts, err := b.client.Enqueue(ctx, msgs...)
	if err != nil {
		return nil, err
	}
	orphans = make(map[int64]bool, len(receipts))
	for _, r := range receipts {
		orphans[r.ID] = true
	}
	for begun := 0; begun < len(orphans); {
		s, err := b.next(ctx)
		if err != nil {
			return nil, fmt.Errorf("only %d of %d jobs run: %w", begun, len(orphans), err)
		}
		if orphans[s.job] {
			begun++
		}
	}
	return orphans, nil
}
