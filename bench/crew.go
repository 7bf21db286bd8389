package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const queue = "bench"

// A crew is a pgfifo worker with a queue to work on.
type crew struct {
	db       *database
	schema   string // "": the default
	groups   int
	lanes    int
	handler  fifo.Handler // nil: does nothing
	queue    fifo.Queue   // without handlers; if it has batches, jobs come in slices
	several  int          // fifo.Settings.GroupLimit; 0: the default
	pollOnly bool

	jobTimeout time.Duration // 0: the default; negative: none

	atOnce int                // over 0: the queue has Settings.SessionLease, and this is SessionConcurrency
	also   func(*fifo.Worker) // what is to be said to the worker besides; may be nil

	ledger *ledger
	filled int64 // jobs that fill has added
	others int64 // beside them
}

// prepare makes a new ledger. Once.
func (c *crew) prepare() {
	c.ledger = newLedger(c.groups)
	c.ledger.most = max(c.several, 1)
}

// own makes a new ledger, and tables of its own for the crew: no other's dead rows are in its way. Once.
func (c *crew) own(ctx context.Context) (err error) {
	c.prepare()
	c.schema, err = c.db.newSchema(ctx)
	return err
}

// newSchema makes tables beside the others.
func (d *database) newSchema(ctx context.Context) (string, error) {
	d.schemas++
	schema := fmt.Sprintf("bench_%d", d.schemas)
	return schema, migrations.Up(ctx, d.pool, &migrations.Config{Schema: schema})
}

// stock makes tables of its own for the crew, and fills them with n jobs.
func (c *crew) stock(ctx context.Context, n int) error {
	if err := c.own(ctx); err != nil {
		return err
	}
	if err := c.fill(ctx, n); err != nil {
		return err
	}
	return c.vacuum(ctx)
}

func (c *crew) vacuum(ctx context.Context) error { return c.db.exec(ctx, "VACUUM ANALYZE "+c.table()) }

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

// params are what a line tells of a crew.
func (c *crew) params() map[string]any { return map[string]any{"groups": c.groups, "lanes": c.lanes} }

// system returns the crew as a system, with tables of its own, that does k times the work of others.
func (c *crew) system(ctx context.Context, name string, k int) (*system, error) {
	return &system{name: name, params: c.params(), work: times(k, c.drain)}, c.own(ctx)
}

// drain works n jobs that are all there at the beginning.
func (c *crew) drain(ctx context.Context, n int) (time.Duration, error) {
	if err := errors.Join(c.fill(ctx, n), c.db.flush(ctx)); err != nil {
		return 0, err
	}
	return c.work(ctx, n)
}

// work runs a worker until n jobs are done. It returns the time from the start of the first handler to the commit of
// the last job, and an error if a promise was broken.
func (c *crew) work(ctx context.Context, n int) (time.Duration, error) {
	t := newTally(n)
	err := c.shift(ctx, t, func(context.Context) error { return nil })
	return t.took(), err
}

// shift runs a worker for as long as meanwhile takes, and then until the tally is complete. Each job must have been
// worked then, or still be there.
func (c *crew) shift(ctx context.Context, t *tally, meanwhile func(context.Context) error) error {
	err := c.run(ctx, t.hooks(), func(ctx context.Context) error {
		if err := meanwhile(ctx); err != nil {
			return err
		}
		return t.wait(ctx)
	})
	if err != nil {
		return err
	}
	return c.audit(ctx)
}

// run runs a worker for as long as meanwhile takes. The context of meanwhile ends when the ledger finds a promise
// broken.
func (c *crew) run(ctx context.Context, hooks []fifo.Hooks, meanwhile func(context.Context) error) error {
	worker := &fifo.Worker{Concurrency: c.lanes, SessionConcurrency: c.atOnce, JobTimeout: c.jobTimeout}
	q := c.queue
	if q.BatchJobs == 0 && q.BatchGroups == 0 {
		q.Handler = c.handle
	} else {
		q.BatchHandler = c.handleBatch
	}
	worker.HandleQueue(queue, q)
	if c.also != nil {
		c.also(worker)
	}
	if c.several > 0 || c.atOnce > 0 {
		want := fifo.Settings{GroupLimit: c.several, SessionLease: c.atOnce > 0}
		if err := c.configure(ctx, queue, want); err != nil {
			return err
		}
	}
	cfg := &fifo.Config{Schema: c.schema, PollOnly: c.pollOnly, Hooks: hooks}
	err := c.db.employ(ctx, worker, cfg, func(ctx context.Context) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() {
			select {
			case <-c.ledger.failed:
				cancel(errors.New("stopped"))
			case <-ctx.Done():
			}
		}()
		return meanwhile(ctx)
	})
	return errors.Join(c.ledger.err(), err)
}

// client opens a client for what is sent to the crew.
func (c *crew) client() *fifo.Client {
	return fifo.Open(c.db.pool, &fifo.Config{Schema: c.schema, PollOnly: c.pollOnly})
}

// configure gives settings to a queue.
func (c *crew) configure(ctx context.Context, name string, want fifo.Settings) error {
	client := c.client()
	defer func() { _ = client.Close() }()
	return client.Queue(name).Configure(ctx, want)
}

// workerName is that of a worker's own connections. Those of its client's pool have it with poolSuffix.
const workerName, poolSuffix = "pgfifo-bench-worker", "-pool"

// employ runs a worker, with a pool and a client of its own, for as long as meanwhile takes.
func (d *database) employ(
	ctx context.Context, worker *fifo.Worker, cfg *fifo.Config, meanwhile func(context.Context) error,
) error {
	pc, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return err
	}
	if d.dial != nil {
		pc.ConnConfig.DialFunc = d.dial
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
	return beside(ctx, meanwhile, worker.Run)
}

// connected waits until the worker's lanes have their connections, and those that look for work and listen.
func (c *crew) connected(ctx context.Context) error {
	all := c.lanes + 2
	if c.pollOnly {
		all--
	}
	return c.db.sessions(ctx, func(n int) bool { return n >= all })
}

// sessions waits until the worker has as many as it should.
func (d *database) sessions(ctx context.Context, enough func(n int) bool) error {
	return until(ctx, func() (bool, error) {
		var n int
		err := d.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = $1`, workerName).Scan(&n)
		return enough(n), err
	})
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

// handleBatch enters all jobs of a batch: no other may run in their groups meanwhile.
func (c *crew) handleBatch(_ context.Context, jobs []*fifo.Job) error {
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
	return nil
}

// audit compares the ledger with the table, when no worker runs: each job was either worked, or is still there.
func (c *crew) audit(ctx context.Context) error {
	var left int64
	if err := c.db.pool.QueryRow(ctx, "SELECT count(*) FROM "+c.table()).Scan(&left); err != nil {
		return err
	}
	if worked := c.ledger.count.Load(); worked+left != c.filled+c.others {
		return fmt.Errorf("PROMISE BROKEN: of %d jobs, %d were worked and %d are left", c.filled+c.others, worked, left)
	}
	return nil
}
