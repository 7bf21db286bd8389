package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What a failed attempt wrote is undone. What the last one writes is committed with the job's completion.
func ExampleJob_PgxTx() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	pool := pgtest.ExamplePool()
	client := fifo.Open(pool, nil)
	if _, err := pool.Exec(ctx, "CREATE TABLE ledger (account text, amount int)"); err != nil {
		log.Fatal(err)
	}

	worker := &fifo.Worker{Client: client, Retry: fifo.Backoff(0, 0)}
	worker.Handle("payments", fifo.JSON(func(ctx context.Context, job *fifo.Job, amount int) error {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO ledger VALUES ($1, $2)", job.GroupID, amount); err != nil {
			return err
		}
		if job.Attempt() == 1 {
			return errors.New("the bank does not answer")
		}
		stop()
		return nil
	}))
	_, err := client.Enqueue(ctx, fifo.Message{Queue: "payments", GroupID: "account-7", Payload: 100})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}

	var rows, sum int
	err = pool.QueryRow(context.Background(), "SELECT count(*), sum(amount) FROM ledger").Scan(&rows, &sum)
	fmt.Println(rows, sum, err)
	// Output: 1 100 <nil>
}

// A store outside the database takes a write only if its token is not lower than the highest that it has seen.
func ExampleJob_Fence() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	var highest int64 // the store's
	write := func(token int64) error {
		if token < highest {
			return errors.New("refused: somebody else has the group by now")
		}
		highest = token
		return nil
	}

	var former int64
	worker := &fifo.Worker{Client: client, Retry: fifo.Backoff(0, 0)}
	worker.Handle("uploads", func(ctx context.Context, job *fifo.Job) error {
		token, err := job.Fence(ctx)
		if err != nil {
			return err
		}
		if job.Attempt() == 1 {
			former = token
			return errors.New("cut off")
		}
		fmt.Println("this attempt:", write(token))
		fmt.Println("the former one:", write(former))
		stop()
		return nil
	})
	if _, err := client.Enqueue(ctx, fifo.Message{Queue: "uploads", GroupID: "ada"}); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// this attempt: <nil>
	// the former one: refused: somebody else has the group by now
}

func ExampleJSON() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	type Welcome struct{ Name, City string }
	worker := &fifo.Worker{Client: client}
	worker.Handle("mail", fifo.JSON(func(ctx context.Context, job *fifo.Job, w Welcome) error {
		fmt.Printf("to %s: welcome to %s, %s\n", job.GroupID, w.City, w.Name)
		stop()
		return nil
	}))
	_, err := client.Enqueue(ctx, fifo.Message{
		Queue: "mail", GroupID: "user-7", Payload: Welcome{Name: "Ada", City: "London"},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: to user-7: welcome to London, Ada
}

// A message with a field that the worker does not know becomes a dead letter, and is not worked by half.
func ExampleStrictJSON() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	type Payment struct{ Cents int }
	worker := &fifo.Worker{Client: client}
	worker.Handle("payments", fifo.StrictJSON(func(ctx context.Context, job *fifo.Job, p Payment) error {
		fmt.Println("paid:", p.Cents)
		stop()
		return nil
	}))
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "ada", Payload: `{"cents": 100, "currency": "JPY"}`},
		fifo.Message{Queue: "payments", GroupID: "ada", Payload: Payment{200}})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	letters, err := client.Queue("payments").DeadLetters(context.Background(), fifo.Letters{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("dead:", string(letters[0].Payload))
	// Output:
	// paid: 200
	// dead: {"cents": 100, "currency": "JPY"}
}

func ExampleHooks() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	client := fifo.Open(pgtest.ExamplePool(), &fifo.Config{Hooks: []fifo.Hooks{{
		Job: func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
			fmt.Println("begin: attempt", job.Attempt()) // a span, say
			return ctx, func(err error) { fmt.Println("end:", err) }
		},
		Settled: func(ctx context.Context, job *fifo.Job, outcome fifo.Outcome, err error) {
			fmt.Println("settled:", outcome)
			if outcome == fifo.Succeeded {
				stop()
			}
		},
	}}})

	worker := &fifo.Worker{Client: client, Retry: fifo.Backoff(0, 0)}
	worker.Handle("mail", func(ctx context.Context, job *fifo.Job) error {
		if job.Attempt() == 1 {
			return errors.New("connection reset")
		}
		return nil
	})
	if _, err := client.Enqueue(ctx, fifo.Message{Queue: "mail", GroupID: "ada"}); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// begin: attempt 1
	// end: connection reset
	// settled: retried
	// begin: attempt 2
	// end: <nil>
	// settled: succeeded
}
