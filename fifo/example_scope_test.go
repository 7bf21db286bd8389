package fifo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A paused group waits, and the others go on.
func ExampleScope_Pause() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	account := client.Queue("payments").Group("account-7")
	was, jobs, err := account.Pause(ctx, "under audit")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paused already:", was, "jobs:", jobs)
	_, err = client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "account-7"}, fifo.Message{Queue: "payments", GroupID: "account-8"})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	worker := &fifo.Worker{Client: client}
	worker.Handle("payments", func(ctx context.Context, job *fifo.Job) error {
		fmt.Println(job.GroupID)
		if job.GroupID == "account-7" {
			stop()
			return nil
		}
		pauses, err := client.Pauses(ctx)
		if err != nil {
			return err
		}
		fmt.Println(pauses[0].GroupID, "is paused:", pauses[0].Reason)
		_, err = account.Resume(ctx)
		return err
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// paused already: false jobs: 0
	// account-8
	// account-7 is paused: under audit
	// account-7
}

// A transaction looks at what a purge would leave, before it commits. The group stands still until then.
func ExampleScope_InPgx() {
	ctx := context.Background()
	pool := pgtest.ExamplePool()
	client := fifo.Open(pool, nil)
	for _, page := range []int{1, 2, 3} {
		_, err := client.Enqueue(ctx, fifo.Message{Queue: "print", GroupID: "printer-1", Payload: page})
		if err != nil {
			log.Fatal(err)
		}
	}

	tx, err := pool.Begin(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback(ctx)
	printer := client.Queue("print").Group("printer-1").InPgx(tx)
	n, err := printer.Purge(ctx)
	fmt.Println("purged:", n, err)
	depth, err := printer.Measure(ctx)
	fmt.Println("left:", depth.Jobs, err)
	fmt.Println("rolled back:", tx.Rollback(ctx))

	depth, err = client.Queue("print").Measure(ctx)
	fmt.Println("left:", depth.Jobs, err)
	// Output:
	// purged: 3 <nil>
	// left: 0 <nil>
	// rolled back: <nil>
	// left: 3 <nil>
}
