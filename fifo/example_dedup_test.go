package fifo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
