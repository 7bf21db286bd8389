package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const riverSchema = "river"

// A riverQueue is River, without groups and order: it fetches and completes many jobs at a time.
type riverQueue struct {
	db     *database
	best   bool                  // set up for speed; its defaults are made for few queries
	client *river.Client[pgx.Tx] // for producers
	filled int64
}

func newRiver(db *database, best bool) *riverQueue { return &riverQueue{db: db, best: best} }

func (q *riverQueue) name() string {
	if q.best {
		return "River"
	}
	return "River (defaults)"
}

// prepare runs River's own migrations. The producers' connections live as long as ctx.
func (q *riverQueue) prepare(ctx context.Context) error {
	if err := q.db.exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+riverSchema); err != nil {
		return err
	}
	m, err := rivermigrate.New(riverpgxv5.New(q.db.pool), &rivermigrate.Config{Logger: quiet(), Schema: riverSchema})
	if err != nil {
		return err
	}
	if _, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	pool, err := q.db.openPool(ctx, 0, producers)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, pool.Close)
	q.client, err = river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet(), Schema: riverSchema})
	return err
}

// A riverJob is a job's number, as River wants it.
type riverJob struct {
	Number int64 `json:"number"`
}

func (riverJob) Kind() string { return queue }

func (q *riverQueue) fill(ctx context.Context, n int) error {
	const each = 5000 // its COPY got no faster with more
	for end := q.filled + int64(n); q.filled < end; {
		n := min(each, end-q.filled)
		if _, err := q.client.InsertManyFast(ctx, riverJobs(q.filled, n)); err != nil {
			return err
		}
		q.filled += n
	}
	return q.db.exec(ctx, "ANALYZE "+riverSchema+".river_job")
}

// riverJobs are n jobs, numbered from one on.
func riverJobs(from, n int64) []river.InsertManyParams {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverJob{from + int64(i)}
	}
	return jobs
}

func (q *riverQueue) insert(ctx context.Context, number int64) error {
	_, err := q.client.Insert(ctx, riverJob{number}, nil)
	return err
}

// run runs a client with a pool of its own. It is stopped so that what runs is completed.
func (q *riverQueue) run(ctx context.Context, handle func(int64), meanwhile func(context.Context) error) error {
	pool, err := q.db.openPool(ctx, 0, 20)
	if err != nil {
		return err
	}
	defer pool.Close()
	client, err := q.worker(pool, handle)
	if err != nil {
		return err
	}
	running := context.WithoutCancel(ctx) // to be stopped, and not cut off
	if err := client.Start(running); err != nil {
		return err
	}
	err = meanwhile(ctx)
	stopping, cancel := context.WithTimeout(running, patience)
	defer cancel()
	return errors.Join(err, client.Stop(stopping))
}

func (q *riverQueue) worker(pool *pgxpool.Pool, handle func(int64)) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, job *river.Job[riverJob]) error {
		handle(job.Args.Number)
		return nil
	}))
	cfg := &river.Config{
		Logger: quiet(), Schema: riverSchema, Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
	}
	if q.best {
		cfg.Queues[river.QueueDefault] = river.QueueConfig{MaxWorkers: 2000}
		cfg.FetchCooldown, cfg.FetchPollInterval = time.Millisecond, 2*time.Millisecond
	}
	return river.NewClient(riverpgxv5.New(pool), cfg)
}

// river is River's producers as a system: its ordinary insert for one job, its fastest for many, by COPY.
func (s *enqueue) river(b *bench, l load) *system {
	name := "River Insert"
	if l.messages > 1 {
		name = "River InsertManyFast"
	}
	return &system{name: name, params: l.params(), work: func(ctx context.Context, _ int) (time.Duration, error) {
		if err := b.exec(ctx, "TRUNCATE "+riverSchema+".river_job"); err != nil {
			return 0, err
		}
		pool, err := b.openWarmPool(ctx, l.producers)
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet(), Schema: riverSchema})
		if err != nil {
			return 0, err
		}
		each, _, err := l.burst(ctx, s.window, func(ctx context.Context, _ int) (err error) {
			if l.messages == 1 {
				_, err = client.Insert(ctx, riverJob{}, nil)
			} else {
				_, err = client.InsertManyFast(ctx, riverJobs(0, int64(l.messages)))
			}
			return err
		})
		return each, err
	}}
}

// quiet is a logger for those who would fall back on one that is not.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
