package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
)

const queue = "bench"

// A crew is a pgfifo worker with a queue to work on.
type crew struct {
	db      *database
	schema  string // "": the default
	groups  int
	lanes   int
	handler fifo.Handler    // nil: does nothing
	queue   fifo.Queue      // without handlers; if it has batches, jobs come in slices
	several int             // fifo.Settings.GroupLimit; 0: the default
	dial    pgconn.DialFunc // nil: the default

	jobTimeout time.Duration // 0: the default; negative: none

	atOnce int                // over 0: the queue has Settings.SessionLease, and this is SessionConcurrency
	also   func(*fifo.Worker) // what is to be said to the worker besides; may be nil

	ledger *ledger
	filled int64
	failed chan struct{} // the ledger found a violation
}

// prepare makes a new ledger. Once.
func (c *crew) prepare() {
	c.failed = make(chan struct{})
	c.ledger = newLedger(c.groups, func() { close(c.failed) })
	c.ledger.most = max(c.several, 1)
}

// own makes a new ledger, and tables of its own for the crew: no other's dead rows are in its way. Once.
func (c *crew) own(ctx context.Context, schema string) error {
	c.schema = schema
	c.prepare()
	return migrate(ctx, c.db.pool, schema)
}

// stock makes tables of its own for the crew, and fills them with n jobs.
func (c *crew) stock(ctx context.Context, schema string, n int) error {
	if err := c.own(ctx, schema); err != nil {
		return err
	}
	if err := c.fill(ctx, n); err != nil {
		return err
	}
	return c.db.exec(ctx, "VACUUM ANALYZE "+c.table())
}

func (c *crew) table() string {
	if c.schema == "" {
		return "pgfifo.jobs"
	}
	return c.schema + ".jobs"
}

// fill adds n jobs, one to each group in turn, as one INSERT: what is measured is the work.
func (c *crew) fill(ctx context.Context, n int) error {
	sql := fmt.Sprintf("INSERT INTO %s (queue, group_id, payload) SELECT '%s', "+groupSQL+", int8send(n / $1::bigint) "+
		"FROM generate_series($2::bigint, $3::bigint - 1) AS n", c.table(), queue, "n % $1::bigint")
	from := c.filled
	c.filled += int64(n)
	if _, err := c.db.pool.Exec(ctx, sql, int64(c.groups), from, c.filled); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	return nil
}

// patience is how long nothing may happen.
const patience = time.Minute

// work runs a worker until n jobs are done. It returns the time from the start of the first handler to the commit of
// the last job, and an error if a promise was broken.
func (c *crew) work(ctx context.Context, n int) (time.Duration, error) {
	t := newTally(n)
	err := c.run(ctx, &fifo.Config{Hooks: t.hooks()}, func(ctx context.Context) error { return t.wait(ctx, c.failed) })
	if err != nil {
		return 0, err
	}
	return t.took(), c.audit(ctx)
}

// run runs a worker for as long as meanwhile takes.
func (c *crew) run(ctx context.Context, cfg *fifo.Config, meanwhile func(context.Context) error) error {
	worker := &fifo.Worker{Concurrency: c.lanes, SessionConcurrency: c.atOnce, JobTimeout: c.jobTimeout}
	q := c.queue
	if q.BatchJobs == 0 && q.BatchGroups == 0 {
		q.Handler = c.handle
	} else {
		q.BatchHandler = c.handleBatch
	}
	worker.HandleQueue(queue, q)
	cfg.Schema = c.schema
	if c.also != nil {
		c.also(worker)
	}
	if c.several > 0 || c.atOnce > 0 {
		want := fifo.Settings{GroupLimit: c.several, SessionLease: c.atOnce > 0}
		if err := c.configure(ctx, queue, want); err != nil {
			return err
		}
	}
	err := c.db.employ(ctx, worker, cfg, c.dial, func(ctx context.Context, _ *fifo.Client) error {
		return meanwhile(ctx)
	})
	return errors.Join(c.ledger.err(), err)
}

// configure gives settings to a queue.
func (c *crew) configure(ctx context.Context, name string, want fifo.Settings) error {
	client := fifo.Open(c.db.pool, &fifo.Config{Schema: c.schema})
	defer func() { _ = client.Close() }()
	return client.Queue(name).Configure(ctx, want)
}

// workerName is that of a worker's own connections. Those of its client's pool have it with poolSuffix.
const workerName, poolSuffix = "pgfifo-bench-worker", "-pool"

// employ runs a worker, with a pool and a client of its own, for as long as meanwhile takes. dial may be nil.
func (d *database) employ(
	ctx context.Context, worker *fifo.Worker, cfg *fifo.Config, dial pgconn.DialFunc,
	meanwhile func(context.Context, *fifo.Client) error,
) error {
	pc, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return err
	}
	if dial != nil {
		pc.ConnConfig.DialFunc = dial
	}
	pc.ConnConfig.RuntimeParams["application_name"] = workerName + poolSuffix
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return err
	}
	defer pool.Close()
	cfg.Logger = quiet()
	worker.Client, worker.Name = fifo.Open(pool, cfg), workerName
	defer func() { _ = worker.Client.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel() // a worker that ends by itself ends the waiting for it
		ended <- worker.Run(ctx)
	}()
	err = meanwhile(ctx, worker.Client)
	cancel()
	return errors.Join(<-ended, err)
}

// connected waits until the worker's lanes, and what stands beside them, have their connections.
func (c *crew) connected(ctx context.Context, beside int) error {
	return until(ctx, func() (bool, error) {
		n, err := c.sessions(ctx)
		return n >= c.lanes+beside, err
	})
}

// gone waits until the server has ended all of them.
func (c *crew) gone(ctx context.Context) error {
	return until(ctx, func() (bool, error) {
		n, err := c.sessions(ctx)
		return n == 0, err
	})
}

func (c *crew) sessions(ctx context.Context) (n int, err error) {
	err = c.db.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, workerName).Scan(&n)
	return n, err
}

func (c *crew) handle(ctx context.Context, job *fifo.Job) error {
	end, err := c.ledger.begin(job)
	if err != nil {
		return err
	}
	defer end()
	if c.handler == nil {
		return nil
	}
	return c.handler(ctx, job)
}

// handleBatch enters all jobs of a batch before it works any: no other may run in their groups meanwhile.
func (c *crew) handleBatch(ctx context.Context, jobs []*fifo.Job) error {
	for i, job := range jobs {
		end, err := c.ledger.begin(job)
		if err != nil {
			return err
		}
		if i+1 < len(jobs) && jobs[i+1].GroupID == job.GroupID {
			end() // for the next one to take over
		} else {
			defer end()
		}
	}
	for _, job := range jobs {
		if c.handler == nil {
			break
		}
		if err := c.handler(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// audit compares the ledger with the table, when no worker runs: each job was either worked, or is still there.
func (c *crew) audit(ctx context.Context) error {
	var left int64
	if err := c.db.pool.QueryRow(ctx, "SELECT count(*) FROM "+c.table()).Scan(&left); err != nil {
		return err
	}
	if worked := c.ledger.count.Load(); worked+left != c.filled {
		return fmt.Errorf("PROMISE BROKEN: of %d jobs, %d were worked and %d are left", c.filled, worked, left)
	}
	return nil
}
