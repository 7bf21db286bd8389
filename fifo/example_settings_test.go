package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Each process says at its start what the queue's settings are. One that differs logs that, and goes on with those that
// are stored.
func ExampleScope_Configure() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	orders := client.Queue("orders")
	err := orders.Configure(ctx, fifo.Settings{DedupWindow: time.Hour})
	if errors.Is(err, fifo.ErrConflict) {
		log.Print(err) // a newer release has changed them
	} else if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same:", orders.Configure(ctx, fifo.Settings{DedupWindow: time.Hour}))
	err = orders.Configure(ctx, fifo.Settings{DedupWindow: time.Minute})
	fmt.Println("another:", errors.Is(err, fifo.ErrConflict))

	// A change says what it replaces. It needs the right of an admin.
	err = orders.Reconfigure(ctx, fifo.Settings{DedupWindow: time.Hour}, fifo.Settings{DedupWindow: time.Minute})
	fmt.Println("changed:", err)
	now, err := orders.Settings(ctx)
	fmt.Println(now.DedupWindow, err)
	// Output:
	// the same: <nil>
	// another: true
	// changed: <nil>
	// 1m0s <nil>
}

// A customer's exports begin in the order in which they were asked for, and three of them may be under way.
func ExampleSettings_groupLimit() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	exports := client.Queue("exports")
	if err := exports.Configure(ctx, fifo.Settings{GroupLimit: 3}); err != nil {
		log.Fatal(err)
	}
	err := exports.Configure(ctx, fifo.Settings{GroupLimit: fifo.MaxGroupLimit + 1})
	fmt.Println(err)
	// Output:
	// fifo: invalid settings: GroupLimit 101 is negative, or over 100
}

// A provider allows ten calls at once, however many processes make them.
func ExampleSettings_limit() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	calls := client.Queue("calls")
	if err := calls.Configure(ctx, fifo.Settings{Limit: 10}); err != nil {
		log.Fatal(err)
	}

	// Later it allows twenty.
	err := calls.Reconfigure(ctx, fifo.Settings{Limit: 10}, fifo.Settings{Limit: 20})
	fmt.Println(err)
	now, err := calls.Settings(ctx)
	fmt.Println(now.Limit, err)
	// Output:
	// <nil>
	// 20 <nil>
}

// A hundred renderings run at once, for as long as each of them takes, and two connections are enough for what they
// write.
func ExampleSettings_sessionLease() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) // a service: signal.NotifyContext
	defer stop()
	pool := pgtest.ExamplePool()
	defer pool.Close()
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()
	if _, err := pool.Exec(ctx, "CREATE TABLE films (name text PRIMARY KEY)"); err != nil {
		log.Fatal(err)
	}

	films := client.Queue("films")
	err := films.Configure(ctx, fifo.Settings{SessionLease: true}) // before Run, in each process
	if err != nil && !errors.Is(err, fifo.ErrConflict) {
		log.Fatal(err)
	}
	const n = 100
	var msgs []fifo.Message
	for i := range n {
		msgs = append(msgs, fifo.Message{
			Queue: "films", GroupID: fmt.Sprint("customer-", i), Payload: fmt.Sprint("film-", i),
		})
	}
	if _, err := client.Enqueue(ctx, msgs...); err != nil {
		log.Fatal(err)
	}

	var all sync.WaitGroup // is done when all of them run
	all.Add(n)
	worker := &fifo.Worker{Client: client, Concurrency: 2, SessionConcurrency: n}
	worker.Handle("films", func(ctx context.Context, job *fifo.Job) error {
		all.Done()
		all.Wait() // the long part: no transaction is open

		tx, err := job.PgxTx(ctx) // takes one of the two connections, until the handler returns: ask late
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO films (name) VALUES ($1)", string(job.Payload))
		return err
	})
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	if err := films.WaitEmpty(ctx); err != nil {
		log.Fatal(err)
	}
	stop()
	if err := <-ended; err != nil {
		log.Fatal(err)
	}

	var made int
	if err := pool.QueryRow(context.Background(), "SELECT count(*) FROM films").Scan(&made); err != nil {
		log.Fatal(err)
	}
	fmt.Println(made, "films")
	// Output:
	// 100 films
}
