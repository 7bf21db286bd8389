package fifo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// An attempt that is recorded on another connection is not counted if another worker has counted one meanwhile.
func TestRecordedOnce(t *testing.T) {
	overAll(t, map[string]error{
		"retried": errOnPurpose, "dead letter": fifo.DeadLetter(errOnPurpose),
	}, func(t *testing.T, failure error) {
		b := newBed(t)
		b.ledger.overlaps = true
		b.send("g", nil)
		free, release := make(chan struct{}), make(chan struct{})
		freed := sync.OnceFunc(func() { close(free) })
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			err := exec(ctx, job, "COMMIT") // which frees the group
			freed()
			<-release
			return errors.Join(failure, err)
		}, oneLane))
		receive(t, free, "the first attempt")
		b.run(b.worker(func(context.Context, *fifo.Job) error { return errOnPurpose }, oneLane,
			func(w *fifo.Worker) { w.Retry = waiting(time.Hour) }))
		await(t, "another attempt", func() bool { return len(b.ledger.outcomes()) == 1 })
		close(release)
		await(t, "the end of the first", func() bool { return len(b.ledger.outcomes()) == 2 })
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Unknown}, b.ledger.outcomes())
		job := only(t, b.jobs())
		require.Equal(t, 1, job.Attempts)
	})
}
