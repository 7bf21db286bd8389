// Deadletters meets a message that cannot be worked. It is given up after two attempts and its group goes on; when the
// cause is mended, it goes back to its own place.
//
// It makes its schema, deadletters_example, anew in the database that DATABASE_URL names:
//
//	DATABASE_URL=postgres://user:password@host/database go run ./examples/deadletters
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

const schema = "deadletters_example" // made anew at each start

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
	mended, printed := false, []int{}
	last, done := 0, func() {}
	worker := &fifo.Worker{Client: client, Concurrency: 1, MaxAttempts: 2, Retry: fifo.Backoff(0, 0)}
	worker.Handle("print", fifo.JSON(func(ctx context.Context, job *fifo.Job, page int) error {
		if page == 2 && !mended {
			return errors.New("unknown font")
		}
		fmt.Println("printed page", page)
		printed = append(printed, page)
		if page == last {
			done() // Run returns when this job is settled
		}
		return nil
	}))
	printTo := func(page int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		last, done = page, cancel
		return worker.Run(ctx)
	}
	page := func(n int) fifo.Message { return fifo.Message{Queue: "print", GroupID: "printer-1", Payload: n} }
	if _, err = client.Enqueue(ctx, page(1), page(2), page(3)); err != nil {
		return err
	}
	if err = printTo(3); err != nil {
		return err
	}
	dead, err := client.Queue("print").DeadLetters(ctx, fifo.Letters{})
	if err != nil || len(dead) != 1 {
		return errors.Join(err, fmt.Errorf("%d dead letters instead of 1", len(dead)))
	}
	for _, f := range dead[0].Failures {
		fmt.Printf("dead letter: page %s, attempt %d: %s\n", dead[0].Payload, f.Attempt, f.Error)
	}

	mended = true
	_, err1 := client.Enqueue(ctx, page(4)) // page 2 goes first all the same
	_, _, err2 := client.Queue("print").Redrive(ctx, fifo.Redrive{Letters: fifo.Letters{IDs: []int64{dead[0].ID}}})
	if err = errors.Join(err1, err2); err != nil {
		return err
	}
	if err = printTo(4); err == nil && !slices.Equal(printed, []int{1, 3, 2, 4}) {
		err = fmt.Errorf("printed %v", printed)
	}
	return err
}
