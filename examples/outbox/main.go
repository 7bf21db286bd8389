// Outbox places orders, a row and a message in one bun.Tx each, ships them in order, and asks for invoices on the way.
//
// It makes its schema, outbox_example, anew in the database that DATABASE_URL names:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/outbox
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
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const (
	setup = `DROP SCHEMA IF EXISTS outbox_example CASCADE; CREATE SCHEMA outbox_example;
		CREATE TABLE outbox_example.orders (id int, customer text);
		CREATE TABLE outbox_example.steps (n serial, step text, customer text, id int)`
	check = `SELECT count(*) = 24 AND bool_and(id > before) FROM (SELECT id, lag(id, 1, 0) OVER
		(PARTITION BY step, customer ORDER BY n) AS before FROM outbox_example.steps) s`
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
	_, err = pool.Exec(ctx, setup)
	if err = errors.Join(err, migrations.Up(ctx, pool, &migrations.Config{Schema: "outbox_example"})); err != nil {
		return err
	}
	work, done := context.WithTimeout(ctx, time.Minute)
	defer done()
	var taken atomic.Int64 // steps: two for each order
	client := fifo.Open(pool, &fifo.Config{Schema: "outbox_example", Hooks: []fifo.Hooks{{
		Settled: func(_ context.Context, _ *fifo.Job, outcome fifo.Outcome, _ error) {
			if outcome == fifo.Succeeded && taken.Add(1) == 24 {
				done()
			}
		},
	}}})
	defer func() { err = errors.Join(err, client.Close()) }()
	for id := 1; id <= 12 && err == nil; id++ {
		err = client.DB().RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
			customer := []string{"ada", "bob", "eve"}[id%3]
			_, err1 := tx.ExecContext(ctx, "INSERT INTO outbox_example.orders VALUES (?, ?)", id, customer)
			_, err2 := client.EnqueueTx(ctx, tx, fifo.Message{Queue: "ship", GroupID: customer, Payload: id})
			return errors.Join(err1, err2) // nil: both are committed; else neither
		})
	}
	if err != nil {
		return err
	}
	worker := &fifo.Worker{Client: client}
	for step, next := range map[string]string{"ship": "invoice", "invoice": ""} {
		worker.Handle(step, fifo.JSON(func(ctx context.Context, job *fifo.Job, id int) error {
			fmt.Println(step, "order", id, "of", job.GroupID)
			tx, err := job.Tx(ctx) // what is done in it happens if the job succeeds, and only then
			if err != nil {
				return err
			}
			const write = "INSERT INTO outbox_example.steps (step, customer, id) VALUES (?, ?, ?)"
			if _, err = tx.ExecContext(ctx, write, step, job.GroupID, id); err == nil && next != "" {
				_, err = client.EnqueueTx(ctx, tx, fifo.Message{Queue: next, GroupID: job.GroupID, Payload: id})
			}
			return err
		}))
	}
	if err = worker.Run(work); err != nil {
		return err
	}
	var ok bool
	if err = pool.QueryRow(ctx, check).Scan(&ok); err == nil && !ok {
		err = errors.New("a step is missing, or was taken twice or out of order")
	}
	return err
}
