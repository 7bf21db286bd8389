// Batches shows many small jobs in few transactions: clicks are counted per page, in order, fifty to a transaction, and
// one that cannot be read fails alone.
//
// It makes its schema, batches_example, anew in the database that DATABASE_URL names:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/batches
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const (
	schema = "batches_example" // made anew at each start
	pages  = 4
	clicks = 1000
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
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
	_, err = pool.Exec(ctx, "CREATE TABLE "+schema+".counts (page text PRIMARY KEY, clicks bigint NOT NULL)")
	if err != nil {
		return err
	}

	work, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	var ended atomic.Int64
	client := fifo.Open(pool, &fifo.Config{Schema: schema, Hooks: []fifo.Hooks{{
		Settled: func(_ context.Context, job *fifo.Job, outcome fifo.Outcome, why error) {
			if outcome == fifo.Buried {
				log.Printf("%s: %v", job.GroupID, why)
			}
			if (outcome == fifo.Succeeded || outcome == fifo.Buried) && ended.Add(1) == clicks {
				done()
			}
		},
	}}})
	defer func() { err = errors.Join(err, client.Close()) }()

	var msgs []fifo.Message
	for i := range clicks {
		payload := "click"
		if i == clicks/2 {
			payload = "garbage"
		}
		msgs = append(msgs, fifo.Message{Queue: "clicks", GroupID: fmt.Sprintf("page-%d", i%pages), Payload: payload})
	}
	if _, err := client.Enqueue(ctx, msgs...); err != nil {
		return err
	}

	var batches atomic.Int64
	worker := &fifo.Worker{Client: client, Concurrency: 2}
	worker.HandleQueue("clicks", fifo.Queue{
		BatchJobs: 50,
		BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error {
			batches.Add(1)
			good, failed := jobs, fifo.BatchError(nil)
			for i, job := range jobs {
				if string(job.Payload) != "click" { // those behind it run again, without it
					good, failed = jobs[:i], fifo.BatchError{job.ID: fifo.DeadLetter(errors.New("not a click"))}
					break
				}
			}
			tx, err := jobs[0].PgxTx(ctx) // of any of them: it is the batch's
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, `INSERT INTO `+schema+`.counts AS c VALUES ($1, $2)
				ON CONFLICT (page) DO UPDATE SET clicks = c.clicks + excluded.clicks`, jobs[0].GroupID, len(good))
			if err != nil || failed == nil {
				return err
			}
			return failed
		},
	})
	if err := worker.Run(work); err != nil {
		return err
	}

	var counted int64
	err = pool.QueryRow(ctx, "SELECT sum(clicks)::bigint FROM "+schema+".counts").Scan(&counted)
	log.Printf("%d clicks counted in %d batches", counted, batches.Load())
	if err == nil && counted != clicks-1 {
		err = fmt.Errorf("%d clicks were counted instead of %d", counted, clicks-1)
	}
	return err
}
