// Deadletters meets a message that cannot be worked. It is given up after two attempts and its group goes on; when the
// cause is mended, it goes back to its own place.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/migrations"
)

const schema = "deadletters_example" // made anew at each start

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	server, err := pgserver.Start(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	pool, err := pgxpool.New(ctx, server.URL)
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
	worker := &fifo.Worker{Client: client, MaxAttempts: 2, Retry: fifo.Backoff(0, 0)}
	worker.Handle("print", fifo.JSON(func(ctx context.Context, job *fifo.Job, page int) error {
		if page == 2 && !mended {
			return errors.New("unknown font")
		}
		fmt.Println("printed page", page)
		printed = append(printed, page)
		return nil
	}))
	page := func(n int) fifo.Message { return fifo.Message{Queue: "print", GroupID: "printer-1", Payload: n} }
	_, err = client.Enqueue(ctx, page(1), page(2), page(3))
	for more := true; more && err == nil; { // a service would call Run
		more, err = worker.RunOne(ctx)
	}
	dead, errList := client.DeadLetters(ctx, fifo.Filter{Queue: "print"})
	if err = errors.Join(err, errList); err != nil || len(dead) != 1 {
		return errors.Join(err, fmt.Errorf("%d dead letters instead of 1", len(dead)))
	}
	for _, f := range dead[0].Failures {
		fmt.Printf("dead letter: page %s, attempt %d: %s\n", dead[0].Payload, f.Attempt, f.Error)
	}

	mended = true
	_, err1 := client.Enqueue(ctx, page(4)) // page 2 goes first all the same
	_, err2 := client.Redrive(ctx, dead[0].Group(), dead[0].ID)
	err = errors.Join(err1, err2)
	for more := true; more && err == nil; {
		more, err = worker.RunOne(ctx)
	}
	if err == nil && !slices.Equal(printed, []int{1, 3, 2, 4}) {
		err = fmt.Errorf("printed %v", printed)
	}
	return err
}
