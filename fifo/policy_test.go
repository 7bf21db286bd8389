package fifo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func TestRetryPolicyThatPanics(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.send("g", "fails")
	w := b.worker(func(context.Context, *fifo.Job) error { return errors.New("as ever") }, func(w *fifo.Worker) {
		w.Retry = func(*fifo.Job, error) time.Duration { panic("in the policy") }
	})
	ran, err := w.RunOne(t.Context())
	require.NoError(t, err)
	require.True(t, ran)
	jobs, err := b.client.Jobs(t.Context(), fifo.Page{})
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, 1, jobs[0].Attempts)
	require.False(t, jobs[0].RunAt.IsZero(), "the default policy's delay")
}
