package soak

import (
	"context"
	"errors"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// workerName begins the application_name of the workers' connections.
const workerName = "soak worker "

// A sin is what a handler is told to do wrong.
type sin string

const (
	sinError   sin = "handler error"
	sinPanic   sin = "panic"
	sinTimeout sin = "job timeout"
)

var errSin = errors.New("soak: as told")

// A crew is a worker that is started and stopped again and again.
type crew struct {
	worker *fifo.Worker
	run    *run
	cancel context.CancelFunc
	ended  chan error
}

func (r *run) newCrew(name string) *crew {
	w := &fifo.Worker{
		Client: r.client, Name: name, Concurrency: r.Lanes, MaxAttempts: 1000, JobTimeout: jobTimeout,
		PollInterval: 200 * time.Millisecond, Retry: fifo.Backoff(time.Millisecond, 10*time.Millisecond),
	}
	slice := func(ctx context.Context, jobs []*fifo.Job) error {
		for _, j := range jobs {
			if err := r.handle(ctx, j); err != nil {
				return err
			}
		}
		return nil
	}
	w.Handle("plain", r.handle)
	w.HandleQueue("each", fifo.Queue{BatchJobs: 10, Handler: r.handle})
	w.HandleQueue("slice", fifo.Queue{BatchJobs: 20, BatchHandler: slice})
	w.HandleQueue("heads", fifo.Queue{BatchGroups: 20, BatchHandler: slice})
	return &crew{worker: w, run: r}
}

func (c *crew) start(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.ended = make(chan error, 1)
	go func() {
		err := c.worker.Run(ctx)
		// A fault has met it at its start: Run says so, and whoever runs it goes on.
		for err != nil && ctx.Err() == nil {
			c.run.failedStarts.Add(1)
			err = c.worker.Run(ctx)
		}
		c.ended <- err
	}()
}

func (c *crew) stop() {
	c.cancel()
	if err := <-c.ended; err != nil {
		c.run.wrong.add("%s: %v", c.worker.Name, err)
	}
}

// handle writes how far the group is, by pgx and bun in turns, and sins if it is told to.
func (r *run) handle(ctx context.Context, job *fifo.Job) error {
	var advanced int64
	if job.ID%2 == 0 {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx,
			`UPDATE progress SET last = $3, done = done + 1 WHERE queue = $1 AND group_id = $2 AND last < $3`,
			job.Queue, job.GroupID, job.ID)
		if err != nil {
			return err
		}
		advanced = tag.RowsAffected()
		if job.ID%256 == 0 {
			var n int64
			if err := tx.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_statements").Scan(&n); err != nil {
				return err
			}
			for old := r.most.Load(); n > old && !r.most.CompareAndSwap(old, n); old = r.most.Load() {
			}
		}
	} else {
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		res, err := tx.NewUpdate().Table("progress").Set("last = ?", job.ID).Set("done = done + 1").
			Where("queue = ?", job.Queue).Where("group_id = ?", job.GroupID).Where("last < ?", job.ID).Exec(ctx)
		if err != nil {
			return err
		}
		if advanced, err = res.RowsAffected(); err != nil {
			return err
		}
	}
	if advanced != 1 {
		r.wrong.add("job %d of %s/%s, attempt %d: its group is beyond it", job.ID, job.Queue,
			job.GroupID, job.Attempt())
	}
	if err := r.sin(ctx, job); err != nil {
		return err
	}
	r.done.Add(1) // or a little more: an attempt may yet be lost. Producers look at it, nobody else.
	return nil
}

// sin does what is asked for, if anything is.
func (r *run) sin(ctx context.Context, job *fifo.Job) error {
	if job.Queue == "slice" || job.Queue == "heads" {
		return nil // a batch's time is twenty times a job's
	}
	select {
	case s := <-r.sins:
		r.heard <- struct{}{}
		switch s {
		case sinPanic:
			panic(errSin)
		case sinTimeout:
			<-ctx.Done()
			return ctx.Err()
		}
		return errSin
	default:
		return nil
	}
}
