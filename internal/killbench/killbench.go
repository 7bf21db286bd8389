// Package killbench measures how long the jobs of a worker wait for their next attempt when it is killed.
//
// Worker processes are the running program again: it calls Main first of all.
package killbench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// A Config says what to measure.
type Config struct {
	URL       string                           // of a migrated database
	Queue     string                           // with nothing in it; its Settings say by which lease
	Session   bool                             // that is the lease of a session
	Jobs      int                              // run when a process is killed: in all, or in a crowd in that one
	Survivors int                              // how many other processes there are then
	GoOn      bool                             // the second attempts of the jobs go on, too; else they end at once
	Logf      func(format string, args ...any) `json:"-"`
}

// Run kills workers in the middle of jobs, so many times, and returns for each job that one of them held the time from
// just before the kill to the start of the job's next attempt in another process. A victim is idle in its jobs'
// transactions when it dies, and each of the others has lanes for all jobs. All processes share one host's clock.
func Run(ctx context.Context, cfg Config, kills int) ([]time.Duration, error) {
	return measure(ctx, cfg, func(b *bench) error {
		for range b.Survivors + 1 {
			if err := b.employ(ctx, b.Jobs); err != nil {
				return err
			}
		}
		for n := range kills {
			if err := b.round(ctx); err != nil {
				return fmt.Errorf("after %d kills: %w", n, err)
			}
		}
		return nil
	})
}

// RunCrowd kills a process that runs many jobs, and measures as Run does. No survivor has any other job, and together
// they have room for those.
func RunCrowd(ctx context.Context, cfg Config) ([]time.Duration, error) {
	return measure(ctx, cfg, func(b *bench) error {
		if err := b.employ(ctx, b.Jobs); err != nil {
			return err
		}
		if err := b.hold(ctx); err != nil {
			return err
		}
		for range b.Survivors {
			if err := b.employ(ctx, (b.Jobs+b.Survivors-1)/b.Survivors); err != nil {
				return err
			}
		}
		if err := pause.For(ctx, 500*time.Millisecond+rand.N(200*time.Millisecond)); err != nil {
			return err
		}
		_, err := b.orphan(ctx)
		return err
	})
}

// measure has kills made, and returns what they took.
func measure(ctx context.Context, cfg Config, kills func(*bench) error) ([]time.Duration, error) {
	pool, err := pgxpool.New(ctx, cfg.URL)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()
	b := &bench{
		Config: cfg, pool: pool, client: client, starts: make(chan start, 1024), holder: make(map[int64]*process),
	}
	defer b.stop()
	if err := kills(b); err != nil {
		return nil, fmt.Errorf("killbench: %w", err)
	}
	return b.recoveries, nil
}

// A bench is a run under way.
type bench struct {
	Config
	pool       *pgxpool.Pool
	client     *fifo.Client
	procs      []*process // the oldest first
	count      int
	starts     chan start
	holder     map[int64]*process // of the jobs that run
	recoveries []time.Duration
}

// patience bounds each wait for something to happen.
const patience = 30 * time.Second

// round has jobs run everywhere, kills a worker that has one, and has another one follow it.
func (b *bench) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no progress for %v", patience))
	defer cancel()
	if err := b.hold(ctx); err != nil {
		return err
	}
	// A job has been running for a while when its worker dies, and not in step with anybody's polls.
	if err := pause.For(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond)); err != nil {
		return err
	}
	victim, err := b.orphan(ctx)
	if err != nil {
		return err
	}
	b.procs = slices.DeleteFunc(b.procs, func(p *process) bool { return p == victim })
	return b.employ(ctx, b.Jobs)
}

// orphan kills the oldest worker that has jobs, and waits until others have started all of these again.
func (b *bench) orphan(ctx context.Context) (*process, error) {
	victim, orphans := b.victim()
	killed := time.Now()
	if err := victim.kill(); err != nil {
		return nil, err
	}
	last := time.Duration(0)
	for len(orphans) > 0 {
		s, err := b.next(ctx)
		if err != nil {
			return nil, fmt.Errorf("%d jobs of a killed worker were not started again: %w", len(orphans), err)
		}
		if orphans[s.job] && s.proc != victim {
			delete(orphans, s.job)
			delete(b.holder, s.job) // the second attempt ends at once, or is no round's
			last = s.at.Sub(killed)
			b.recoveries = append(b.recoveries, last)
		}
	}
	b.Logf("killed %s: the last job after %v", victim.name, last)
	return victim, nil
}

// hold enqueues jobs, a group each, until as many run as are to.
func (b *bench) hold(ctx context.Context) error {
	var msgs []fifo.Message
	for range b.Jobs - len(b.holder) {
		b.count++
		msgs = append(msgs, fifo.Message{Queue: b.Queue, GroupID: fmt.Sprint(b.count)})
	}
	if _, err := b.client.Enqueue(ctx, msgs...); err != nil {
		return err
	}
	for len(b.holder) < b.Jobs {
		s, err := b.next(ctx)
		if err != nil {
			return fmt.Errorf("only %d of %d jobs run: %w", len(b.holder), b.Jobs, err)
		}
		b.holder[s.job] = s.proc
	}
	return nil
}

// victim returns the oldest worker that has jobs, and those.
func (b *bench) victim() (victim *process, orphans map[int64]bool) {
	orphans = make(map[int64]bool)
	for _, p := range b.procs {
		for job, holder := range b.holder {
			if holder == p {
				orphans[job] = true
			}
		}
		if len(orphans) > 0 {
			return p, orphans
		}
	}
	return nil, nil // not with a job that runs
}

// next returns the next start, for which it waits for as long as patience lasts.
func (b *bench) next(ctx context.Context) (start, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no progress for %v", patience))
	defer cancel()
	select {
	case s := <-b.starts:
		return s, nil
	case <-ctx.Done():
		return start{}, context.Cause(ctx)
	}
}
