package fifo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Of many changes to a document the last one is indexed, in half a minute. The window is shorter than the delay: a
// change that comes behind it is a job of its own.
func ExampleMessage_replace() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)
	if err := client.Queue("index").Configure(ctx, fifo.Settings{DedupWindow: 20 * time.Second}); err != nil {
		log.Fatal(err)
	}

	for _, text := range []string{"a", "a b", "a b c"} {
		got, err := client.Enqueue(ctx, fifo.Message{
			Queue: "index", GroupID: "doc-7", DedupID: "doc-7", Replace: true, Delay: 30 * time.Second, Payload: text,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(got[0].Duplicate, got[0].Replaced)
	}
	jobs, err := client.Queue("index").Jobs(ctx, fifo.Page{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(jobs), string(jobs[0].Payload))
	// Output:
	// false false
	// true true
	// true true
	// 1 a b c
}

// A webhook that is delivered twice is worked once.
func ExampleContentID() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	body := []byte(`{"event": "paid", "order": 7}`)
	id, err := fifo.ContentID(body) // or the event's own id, if it has one
	if err != nil {
		log.Fatal(err)
	}
	webhook := fifo.Message{Queue: "webhooks", GroupID: "order-7", DedupID: id, Payload: body}
	first, err := client.Enqueue(ctx, webhook)
	if err != nil {
		log.Fatal(err)
	}
	again, err := client.Enqueue(ctx, webhook)
	fmt.Println(again[0].Duplicate, again[0].ID == first[0].ID, err)

	depth, err := client.Queue("webhooks").Measure(ctx)
	fmt.Println(depth.Jobs, err)
	// Output:
	// true true <nil>
	// 1 <nil>
}
