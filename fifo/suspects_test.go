package fifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Jobs that a dead worker leaves do not wait for each other when they are quick, however many they are.
func TestManyLostAtOnce(t *testing.T) {
	t.Parallel()
	const n = 50
	b := newBed(t)
	b.ledger.overlaps = true
	for i := range n {
		b.send(fmt.Sprint("g", i), nil)
	}
	started := make(chan struct{}, n)
	ctx, die := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := b.worker(func(ctx context.Context, _ *fifo.Job) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, watchful, func(w *fifo.Worker) { w.Concurrency, w.Name, w.DrainTimeout = n, "dies", -1 })
	go func() { ended <- w.Run(ctx) }()
	for range n {
		receive(t, started, "all handlers")
	}
	b.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dies'")
	die()
	require.NoError(t, receive(t, ended, "the end of Run"))
	begin, next := time.Now(), b.worker(nop)
	b.work(next)
	require.Greater(t, next.Stats().Lost, int64(n/2))
	require.Less(t, time.Since(begin), 10*time.Second, "each waits for the one before it, and not for its time")
}
