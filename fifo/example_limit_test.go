package fifo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
