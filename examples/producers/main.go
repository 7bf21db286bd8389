// Producers enqueues in transactions of pgx, database/sql and bun. What is rolled back was never there.
//
// It makes its schema, producers_example, anew in the database that DATABASE_URL names:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/producers
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const schema = "producers_example" // made anew at each start

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
	client := fifo.Open(pool, &fifo.Config{Schema: schema})
	defer func() { err = errors.Join(err, client.Close()) }()
	db := stdlib.OpenDBFromPool(pool) // any *sql.DB with a driver for PostgreSQL will do
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, payload := range []string{"rolled back", "committed"} {
		pgxTx, err1 := pool.Begin(ctx)
		sqlTx, err2 := db.BeginTx(ctx, nil)
		bunTx, err3 := client.DB().BeginTx(ctx, nil)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		mail := fifo.Message{Queue: "mail", GroupID: "ada@example.com", Payload: payload}
		_, err1 = client.EnqueuePgxTx(ctx, pgxTx, mail)
		_, err2 = client.EnqueueTx(ctx, sqlTx, mail)
		_, err3 = client.EnqueueTx(ctx, bunTx, mail)
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		if payload == "committed" {
			err = errors.Join(pgxTx.Commit(ctx), sqlTx.Commit(), bunTx.Commit())
		} else {
			err = errors.Join(pgxTx.Rollback(ctx), sqlTx.Rollback(), bunTx.Rollback())
		}
		if err != nil {
			return err
		}
	}

	jobs, err := client.Queue("mail").Jobs(ctx, fifo.Page{})
	for _, job := range jobs {
		fmt.Printf("job %d in group %s: %s\n", job.ID, job.GroupID, job.Payload)
	}
	if len(jobs) != 3 || string(jobs[0].Payload) != "committed" {
		err = errors.Join(err, fmt.Errorf("%d jobs instead of 3 that are committed", len(jobs)))
	}
	return err
}
