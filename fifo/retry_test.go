package fifo_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		first, limit time.Duration
		attempts     int // before this one
		want         time.Duration
	}{
		{time.Second, time.Minute, 0, time.Second},
		{time.Second, time.Minute, 1, 2 * time.Second},
		{time.Second, time.Minute, 5, 32 * time.Second},
		{time.Second, time.Minute, 6, time.Minute},
		{time.Second, time.Minute, math.MaxInt32 - 1, time.Minute},
		{time.Minute, time.Second, 0, time.Second},
		{1, math.MaxInt64, 62, 1 << 62},
		{1, math.MaxInt64, 63, math.MaxInt64},
		{3, math.MaxInt64, math.MaxInt32 - 1, math.MaxInt64},
		{time.Hour, math.MaxInt64, 1000, math.MaxInt64},
		{0, time.Minute, math.MaxInt32 - 1, 0},
		{-time.Minute, time.Minute, 3, 0},
		{time.Second, 0, 3, 0},
		{time.Second, -time.Minute, 3, 0},
	} {
		policy := fifo.Backoff(x.first, x.limit)
		low, high := time.Duration(math.MaxInt64), time.Duration(0)
		for range 1000 {
			d := policy(&fifo.Job{Attempts: x.attempts}, nil)
			low, high = min(low, d), max(high, d)
		}
		require.LessOrEqual(t, high, x.want, "%+v", x)
		require.GreaterOrEqual(t, low, x.want-x.want/5, "%+v", x)
		if x.want > 1000 { // it is spread
			require.Less(t, low, x.want-x.want/6, "%+v", x)
			require.Greater(t, high, x.want-x.want/30, "%+v", x)
		}
	}
}

// Retry is asked with the attempt that failed and why; its answer is bounded like a message's delay.
func TestRetry(t *testing.T) { overLeases(t, testRetry) }

func testRetry(t *testing.T, by lease) {
	t.Parallel()
	for _, x := range []struct{ says, want time.Duration }{
		{time.Hour, time.Hour}, {math.MaxInt64, fifo.MaxDelay},
	} {
		t.Run(x.says.String(), func(t *testing.T) {
			b := by.on(newBed(t))
			b.send("g", "x")
			asked := make(chan int, 1)
			b.run(b.worker(func(context.Context, *fifo.Job) error { return errOnPurpose }, func(w *fifo.Worker) {
				w.Retry = func(job *fifo.Job, err error) time.Duration {
					if err == errOnPurpose { //nolint:errorlint // exactly that one
						asked <- job.Attempt()
					}
					return x.says
				}
			}))
			require.Equal(t, 1, receive(t, asked, "Retry to be asked"))
			await(t, "the retry", func() bool { return len(b.ledger.outcomes()) == 1 })
			require.InDelta(t, x.want.Seconds(), time.Until(b.jobs()[0].RunAt).Seconds(), 60)
		})
	}
}
