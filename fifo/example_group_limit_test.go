package fifo_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
