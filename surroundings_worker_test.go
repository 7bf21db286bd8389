package pgfifo_test

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// work runs a worker in this process, until the test ends. One that could not connect in time when it began, as a busy
// machine lets happen to those of little patience, begins again, as whoever runs a worker has it do.
func (s *site) work(w *fifo.Worker, h fifo.Handler) {
	s.Helper()
	w.Handle(queue, h)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := w.Run(ctx)
		for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = w.Run(ctx)
		}
		ended <- err
	}()
	s.Cleanup(func() {
		stop()
		require.NoError(s, <-ended)
	})
}

// awaitValue waits for a value from a handler.
func awaitValue[T any](s *site, from <-chan T, what string) (v T) {
	s.Helper()
	timer := time.NewTimer(3 * patience)
	defer timer.Stop()
	select {
	case v = <-from:
	case <-timer.C:
		require.FailNow(s, "waited in vain for "+what)
	}
	return v
}
