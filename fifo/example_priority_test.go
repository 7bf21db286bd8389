package fifo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A message that somebody waits for goes before the newsletters.
func ExampleMessage_priority() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	mail := func(to string, priority int) fifo.Message {
		return fifo.Message{Queue: "mail", GroupID: to, Payload: "for " + to, Priority: priority}
	}
	if _, err := client.Enqueue(ctx, mail("ada", 0), mail("ben", 0), mail("eve", 5)); err != nil {
		log.Fatal(err)
	}

	worker := &fifo.Worker{Client: client, Concurrency: 1, PollInterval: 100 * time.Millisecond}
	worker.Handle("mail", func(_ context.Context, job *fifo.Job) error {
		fmt.Println(string(job.Payload))
		return nil
	})
	if _, err := worker.RunOne(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: for eve
}
