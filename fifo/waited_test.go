package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// The window of a message begins when it is enqueued, and not when it has begun to wait for another one that was rolled
// back. So does a delay, for one that waits for the order of commits.
func TestWaitingIsNoPartOfATime(t *testing.T) {
	t.Parallel()
	for until, m := range map[string]fifo.Message{
		"SELECT expires - interval '5 min' FROM pgfifo.dedup_ids": deduped("g", "a"),
		"SELECT run_at - interval '5 min' FROM pgfifo.jobs": {
			Queue: "q", GroupID: "g", Delay: 5 * time.Minute,
		},
	} {
		t.Run(until, func(t *testing.T) {
			b := newBed(t, func(c *fifo.Config) { c.CommitOrder = true })
			tx := b.begin()
			b.receiptsIn(tx, m)
			done := make(chan error, 1)
			go func() {
				_, err := b.client.Enqueue(context.Background(), m)
				done <- err
			}()
			await(t, "it to wait", func() bool { return b.blocked() == 1 })
			var now time.Time
			since := query[time.Time](b, "SELECT clock_timestamp()")
			await(t, "a second", func() bool {
				now = query[time.Time](b, "SELECT clock_timestamp()")
				return now.Sub(since) > time.Second
			})
			require.NoError(t, tx.Rollback(t.Context()))
			require.NoError(t, receive(t, done, "the second"))
			require.True(t, query[time.Time](b, until).After(now))
		})
	}
}
