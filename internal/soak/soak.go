// Package soak runs jobs and faults in one process for long, and then asks what is left of them: goroutines,
// connections, prepared statements, open transactions, locks, files, temporary tables, and memory.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/fifo"
)

// A Config says how much to do. Zero fields mean the defaults.
type Config struct {
	// Jobs is how many jobs are enqueued. Defaults to 100,000. Ignored if For is set.
	Jobs int
	// For is how long jobs are enqueued.
	For time.Duration
	// Faults is how many faults are made meanwhile, evenly spread. Defaults to 1,000; negative: none.
	Faults int
	// Lanes is how many each of the two workers has. Defaults to 8.
	Lanes int
	// Groups is how many groups each of the four queues has, at least 4. Defaults to 52.
	Groups int
	// Every is the time between two samples of the memory. Defaults to 5 seconds.
	Every time.Duration
	// Log is told of what goes on. Defaults to nobody.
	Log io.Writer
}

func (c Config) withDefaults() Config {
	orDefault := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
	}
	orDefault(&c.Jobs, 100_000)
	orDefault(&c.Faults, 1000)
	orDefault(&c.Lanes, 8)
	orDefault(&c.Groups, 52)
	c.Groups = max(c.Groups, producers)
	if c.Every == 0 {
		c.Every = 5 * time.Second
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	return c
}

// A run is one soak.
type run struct {
	Config
	pool         *pgxpool.Pool // the application's: producers, and the workers' configuration
	gauge        *gauge
	client       *fifo.Client
	crews        []*crew
	sins         chan sin      // what a handler is to do wrong
	heard        chan struct{} // that one has taken it
	start        time.Time
	ended        chan struct{} // when everything is enqueued and done
	sent         atomic.Int64
	made         atomic.Int64 // faults
	done         atomic.Int64 // handled, as far as the handlers know
	most         atomic.Int64 // prepared statements of a session
	failedStarts atomic.Int64 // of workers
	wrong        problems
	counts       map[string]int // faults made, by kind
}

// Run soaks the database at url, which has the library's tables and nothing in them; it makes a table of its own. The
// error says that the soak could not be made; what it found wrong is in the Report.
func Run(ctx context.Context, url string, cfg Config) (*Report, error) {
	cfg = cfg.withDefaults()
	r := &run{
		Config: cfg, sins: make(chan sin, 1), heard: make(chan struct{}, 1), ended: make(chan struct{}),
		counts: make(map[string]int),
	}
	poolCfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	poolCfg.MaxConns = 8
	if r.pool, err = pgxpool.NewWithConfig(ctx, poolCfg); err != nil {
		return nil, err
	}
	defer r.pool.Close()
	r.client = fifo.Open(r.pool, &fifo.Config{Logger: slog.New(slog.DiscardHandler)})
	defer func() { _ = r.client.Close() }()
	if r.gauge, err = newGauge(ctx, url); err != nil {
		return nil, err
	}
	defer r.gauge.close()
	if err := r.makeProgress(ctx); err != nil {
		return nil, err
	}
	for i := range 2 {
		r.crews = append(r.crews, r.newCrew(fmt.Sprintf("%s%d", workerName, i+1)))
	}
	return r.report(ctx)
}

// report soaks, and measures before and after.
func (r *run) report(ctx context.Context) (*Report, error) {
	if err := r.warmUp(ctx); err != nil {
		return nil, fmt.Errorf("soak: warm up: %w", err)
	}
	before, err := r.gauge.atRest(ctx, r.pool, nil)
	if err != nil {
		return nil, err
	}
	r.start = time.Now()
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // work switches it off when it stops the workers
	if err := r.work(ctx); err != nil {
		return nil, err
	}
	took := time.Since(r.start)
	if err := r.verify(ctx); err != nil {
		return nil, err
	}
	after, err := r.gauge.atRest(ctx, r.pool, before)
	if err != nil {
		return nil, err
	}
	rep := &Report{
		Jobs: int(r.sent.Load()), Took: took, Faults: r.counts, FailedStarts: int(r.failedStarts.Load()),
		Statements: int(r.most.Load()), Before: before, After: after, Memory: r.gauge.trends(),
		Problems: r.wrong.list(),
	}
	rep.judge(r.For > 0)
	return rep, nil
}

// warmUp makes what the application makes once, the pool's and the client's. No worker runs: what one leaves behind at
// its first end is left over, too.
func (r *run) warmUp(ctx context.Context) error {
	if err := r.client.DB().PingContext(ctx); err != nil {
		return err
	}
	return r.produce(ctx, 0, 100)
}

// work is the soak itself.
func (r *run) work(ctx context.Context) error {
	for _, c := range r.crews {
		c.start(ctx)
	}
	beside, ctx := errgroup.WithContext(ctx)
	beside.Go(func() error { return r.makeFaults(ctx) })
	beside.Go(func() error { return r.gauge.sample(ctx, r.Every, r.ended) })
	producing, pctx := errgroup.WithContext(ctx)
	for i := range producers {
		producing.Go(func() error { return r.produce(pctx, i, (r.Jobs+i)/producers) })
	}
	err := producing.Wait()
	if err == nil {
		err = r.settled(ctx, 2*time.Minute)
	}
	close(r.ended)
	err = errors.Join(err, beside.Wait())
	debug.SetGCPercent(-1) // it would close connections that somebody forgot
	for _, c := range r.crews {
		c.stop()
	}
	return err
}

// settled waits until no job is left.
func (r *run) settled(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errStuck)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var left int
		err := r.pool.QueryRow(ctx, "SELECT count(*) FROM pgfifo.jobs").Scan(&left)
		if err == nil && left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d jobs are left after %v", context.Cause(ctx), left, limit)
		case <-tick.C:
		}
	}
}
