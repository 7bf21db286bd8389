package fifo_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
	if err := films.Configure(ctx, fifo.Settings{SessionLease: true}); err != nil { // before Run, in each process
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
