// Hooks shows what becomes of attempts: by hooks, for a log and counters in the way of expvar, and by the worker's
// Stats.
//
// It makes its schema, hooks_example, anew in the database that DATABASE_URL names:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/hooks
package main

import (
	"context"
	"errors"
	"expvar"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const schema = "hooks_example" // made anew at each start

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	work, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	counts := expvar.NewMap("jobs") // served at /debug/vars by a program with an HTTP server
	hooks := []fifo.Hooks{{
		Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			return ctx, func(receipts []fifo.Receipt, err error) {
				counts.Add("enqueued", int64(len(receipts)))
			}
		},
		Job: func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
			start := time.Now() // a span would begin here, and go on in the context
			return ctx, func(err error) { counts.AddFloat("seconds", time.Since(start).Seconds()) }
		},
		Settled: func(ctx context.Context, job *fifo.Job, outcome fifo.Outcome, err error) {
			counts.Add(outcome.String(), 1)
			slog.Info("settled", "group", job.GroupID, "attempt", job.Attempt(), "outcome", outcome, "error", err)
			if string(job.Payload) == "last" {
				done()
			}
		},
	}}
	url := os.Getenv("DATABASE_URL")
	if url == "" {
		return errors.New("set DATABASE_URL to your PostgreSQL's, such as postgres://user:password@host/database")
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	_, err = pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
	if err = errors.Join(err, migrations.Up(ctx, pool, &migrations.Config{Schema: schema})); err != nil {
		return err
	}
	client := fifo.Open(pool, &fifo.Config{Schema: schema, Hooks: hooks})
	defer func() { err = errors.Join(err, client.Close()) }()
	worker := &fifo.Worker{Client: client, MaxAttempts: 3, Retry: fifo.Backoff(0, 0)}
	worker.Handle("mail", func(ctx context.Context, job *fifo.Job) error {
		switch {
		case string(job.Payload) == "refused":
			return fifo.DeadLetter(errors.New("no such address"))
		case string(job.Payload) == "flaky" && job.Attempt() < 3:
			return errors.New("connection reset")
		}
		return nil
	})
	mail := func(text string) fifo.Message { return fifo.Message{Queue: "mail", GroupID: "ada", Payload: text} }
	_, err = client.Enqueue(ctx, mail("good"), mail("flaky"), mail("refused"), mail("last"))
	if err != nil {
		return err
	}
	err = worker.Run(work)
	stats := worker.Stats()
	slog.Info("done", "counters", counts, "stats", stats)
	if err == nil && (stats.Succeeded != 3 || stats.Retried != 2 || stats.Buried != 1) {
		err = errors.New("unexpected stats")
	}
	return err
}
