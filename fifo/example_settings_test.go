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

// Each process says at its start what the queue's settings are, and those that differ are told.
func ExampleScope_Configure() {
	ctx := context.Background()
	client := fifo.Open(pgtest.ExamplePool(), nil)

	orders := client.Queue("orders")
	if err := orders.Configure(ctx, fifo.Settings{DedupWindow: time.Hour}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same:", orders.Configure(ctx, fifo.Settings{DedupWindow: time.Hour}))
	err := orders.Configure(ctx, fifo.Settings{DedupWindow: time.Minute})
	fmt.Println("another:", errors.Is(err, fifo.ErrConflict))

	// A change says what it replaces.
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
