package pgfifo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// background runs something, a worker say, until the test ends or the returned function is called, and requires that it
// ends well.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// work runs a worker in this process, until the test ends. One that could not connect in time when it began, as a busy
// machine lets happen to those of little patience, begins again, as whoever runs a worker has it do.
func (s *site) work(w *fifo.Worker, h fifo.Handler) {
	s.Helper()
	w.Handle(queue, h)
	background(s.T, func(ctx context.Context) error {
		err := w.Run(ctx)
		for errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			err = w.Run(ctx)
		}
		return err
	})
}

// receive waits for a value from a channel.
func receive[T any](t *testing.T, limit time.Duration, from <-chan T, what string) (v T) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v = <-from:
	case <-timer.C:
		require.FailNow(t, "waited in vain for "+what)
	}
	return v
}

// writeEffect writes the effect of a job in its transaction, which it returns.
func writeEffect(ctx context.Context, job *fifo.Job) (pgx.Tx, error) {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "INSERT INTO public.effects (group_id, job_id, attempt) VALUES ($1, $2, $3)",
		job.GroupID, job.ID, job.Attempt())
	return tx, err
}
