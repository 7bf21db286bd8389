package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A payment that cannot be made stops its account until an operator has decided.
func ExampleGiveUp_blockGroup() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	_, err := client.Enqueue(ctx,
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: "a debit", MaxAttempts: 1},
		fifo.Message{Queue: "payments", GroupID: "account-7", Payload: "the next one"})
	if err != nil {
		log.Fatal(err)
	}
	worker := &fifo.Worker{Client: client}
	worker.HandleQueue("payments", fifo.Queue{
		OnGiveUp: fifo.BlockGroup,
		Handler: func(_ context.Context, job *fifo.Job) error {
			if string(job.Payload) == "a debit" {
				return errors.New("no such account")
			}
			fmt.Println(string(job.Payload), "is made")
			return nil
		},
	})
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}

	stopped, err := client.Queue("payments").Groups(ctx, fifo.Page{}, fifo.Paused)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range stopped {
		fmt.Println(s.GroupID, "with", s.Queued, "jobs:", s.LastFailure.Error)
		// Or Resume: it is tried again.
		if err := client.Queue(s.Queue).Bury(ctx, s.PauseJob, "the account is closed"); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// account-7 with 2 jobs: no such account
	// the next one is made
}
