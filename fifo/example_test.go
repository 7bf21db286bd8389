package fifo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

type Transfer struct {
	Amount int
	Last   bool
}

func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) // a service: signal.NotifyContext
	defer stop()
	pool := pgtest.ExamplePool() // pgxpool.New(ctx, os.Getenv("DATABASE_URL")) and migrations.Up(ctx, pool, nil)
	defer pool.Close()
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()

	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: Transfer{Amount: 100}},
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: Transfer{Amount: -30}},
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: Transfer{Amount: 5, Last: true}})
	if err != nil {
		log.Fatal(err)
	}

	worker := &fifo.Worker{Client: client}
	worker.Handle("payments", fifo.JSON(func(ctx context.Context, job *fifo.Job, t Transfer) error {
		fmt.Println(job.GroupID, t.Amount)
		if t.Last {
			stop() // Run returns when this job is done
		}
		return nil
	}))
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// account-7 100
	// account-7 -30
	// account-7 5
}
