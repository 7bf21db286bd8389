// Package killbench measures how long the jobs of a worker wait for their next attempt when it is killed.
//
// Worker processes are the running program again: it calls Main first of all.
package killbench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// A Config says what to measure. Zero fields mean the defaults.
type Config struct {
	// URL is that of a migrated database, with nothing in the queue "killbench". Required.
	URL string
	// Kills is how many workers are killed, one after the other. Defaults to 200.
	Kills int
	// Survivors is how many other worker processes there are at each kill. Defaults to 2.
	Survivors int
	// Lanes is the Concurrency of each worker, and how many jobs run when a worker is killed, in all workers together:
	// the survivors have lanes to spare. Defaults to 4.
	Lanes int
	// Logf is told of the progress, if it is not nil.
	Logf func(format string, args ...any)
}

func (c Config) withDefaults() Config {
	c.Kills, c.Survivors, c.Lanes = cmp.Or(c.Kills, 200), cmp.Or(c.Survivors, 2), cmp.Or(c.Lanes, 4)
	if c.Logf == nil {
		c.Logf = func(string, ...any) {}
	}
	return c
}

// A Report is what was measured.
type Report struct {
	Kills int
	// Recoveries has an entry for each job that a killed worker held: the time from just before the kill to the start
	// of the job's next attempt in another process. Ascending.
	Recoveries []time.Duration
}

func (r Report) String() string {
	text := fmt.Sprintf("%d kills, %d jobs recovered", r.Kills, len(r.Recoveries))
	if n := len(r.Recoveries); n > 0 {
		text += fmt.Sprintf(": p50 %v, p99 %v, max %v", r.Recoveries[n/2], r.Recoveries[n*99/100], r.Recoveries[n-1])
	}
	return text
}

// Run kills workers in the middle of jobs, as often as cfg says, and measures. A victim is idle in its jobs'
// transactions when it dies. All processes share one host's clock.
func Run(ctx context.Context, cfg Config) (Report, error) {
	return measure(ctx, cfg.withDefaults(), func(b *bench) error {
		for range b.cfg.Survivors + 1 {
			if err := b.spawn(ctx); err != nil {
				return err
			}
		}
		for range b.cfg.Kills {
			if err := b.round(ctx); err != nil {
				return fmt.Errorf("after %d kills: %w", b.report.Kills, err)
			}
		}
		return nil
	})
}

// measure has kills made, and reports what they took.
func measure(ctx context.Context, cfg Config, kills func(*bench) error) (Report, error) {
	pool, err := pgxpool.New(ctx, cfg.URL)
	if err != nil {
		return Report{}, err
	}
	defer pool.Close()
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()
	b := &bench{cfg: cfg, pool: pool, client: client, starts: make(chan start, 1024), holder: make(map[int64]*process)}
	defer b.stop()
	if err := kills(b); err != nil {
		return b.report, fmt.Errorf("killbench: %w", err)
	}
	slices.Sort(b.report.Recoveries)
	return b.report, nil
}

// A bench is a run under way.
type bench struct {
	cfg    Config
	pool   *pgxpool.Pool
	client *fifo.Client
	procs  []*process // the oldest first
	count  int
	starts chan start
	holder map[int64]*process // of the jobs that run
	report Report
}

// patience bounds each wait for something to happen.
const patience = 30 * time.Second

// round has jobs run everywhere, kills the oldest worker that has one, and waits until others have started all of its
// jobs again.
func (b *bench) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no progress for %v", patience))
	defer cancel()
	if err := b.hold(ctx, heldQueue, b.cfg.Lanes); err != nil {
		return err
	}
	// A job has been running for a while when its worker dies, and not in step with anybody's polls.
	if err := pause.For(ctx, 50*time.Millisecond+rand.N(200*time.Millisecond)); err != nil {
		return err
	}
	victim, orphans := b.victim()
	if err := b.orphan(ctx, victim, orphans); err != nil {
		return err
	}
	b.procs = slices.DeleteFunc(b.procs, func(p *process) bool { return p == victim })
	return b.spawn(ctx)
}

// orphan kills a worker that has those jobs, and waits until others have started them again.
func (b *bench) orphan(ctx context.Context, victim *process, orphans map[int64]bool) error {
	killed := time.Now()
	if err := victim.kill(); err != nil {
		return err
	}
	b.report.Kills++
	for len(orphans) > 0 {
		s, err := b.next(ctx)
		if err != nil {
			return fmt.Errorf("%d jobs of a killed worker were not started again: %w", len(orphans), err)
		}
		if orphans[s.job] && s.proc != victim {
			delete(orphans, s.job)
			delete(b.holder, s.job) // the second attempt ends at once, or is no round's
			b.report.Recoveries = append(b.report.Recoveries, s.at.Sub(killed))
		}
	}
	b.cfg.Logf("kill %d: the last job after %v", b.report.Kills, b.report.Recoveries[len(b.report.Recoveries)-1])
	return nil
}

// hold enqueues jobs, a group each, until so many run.
func (b *bench) hold(ctx context.Context, queue string, jobs int) error {
	var msgs []fifo.Message
	for range jobs - len(b.holder) {
		b.count++
		msgs = append(msgs, fifo.Message{Queue: queue, GroupID: fmt.Sprint(b.count)})
	}
	if _, err := b.client.Enqueue(ctx, msgs...); err != nil {
		return err
	}
	for len(b.holder) < jobs {
		s, err := b.next(ctx)
		if err != nil {
			return fmt.Errorf("only %d of %d jobs run: %w", len(b.holder), jobs, err)
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
