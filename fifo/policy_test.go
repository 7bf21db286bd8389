package fifo_test

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A Retry that gives no answer has the default used.
func TestRetryThatEnds(t *testing.T) {
	pgtest.OverAll(t, map[string]func(){
		"panics": func() { panic("in the policy") }, "exits": runtime.Goexit,
	}, func(t *testing.T, end func()) {
		b := newBed(t)
		b.send("g", "fails")
		require.True(t, b.runsOne(b.worker(failing(1, errOnPurpose), func(w *fifo.Worker) {
			w.Retry = func(job *fifo.Job, _ error) time.Duration {
				*job = fifo.Job{ID: -1, MaxAttempts: 1} // it is a copy
				end()
				return 0
			}
		})))
		job := only(t, b.jobs())
		require.Equal(t, 1, job.Attempts)
		require.False(t, job.RunAt.IsZero(), "the default policy's delay")
	})
}

// A Retry that takes its time, longer than the server waits for a worker that says nothing, keeps the job.
func TestRetryThatTakesItsTime(t *testing.T) {
	b := newBed(t)
	b.send("g", "fails")
	w := b.worker(failing(1, errOnPurpose), func(w *fifo.Worker) {
		w.Heartbeat, w.Silence, w.ServerSilence = 100*time.Millisecond, time.Second, 3500*time.Millisecond
		w.Retry = func(*fifo.Job, error) time.Duration {
			begun := query[time.Time](b, "SELECT clock_timestamp()")
			await(t, "heartbeats for longer than the server waits, or the end of the session", func() bool {
				return query[bool](b, `SELECT coalesce(max(state_change) > $1::timestamptz + interval '4 s', true)
					FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'`, begun)
			})
			return 0
		}
	})
	b.work(w)
	require.EqualValues(t, 1, w.Stats().Retried)
	require.Zero(t, w.Stats().Lost+w.Stats().Unknown)
}

func TestHandlerChangesItsJob(t *testing.T) {
	changes := map[string]func(job *fifo.Job){
		"the id":       func(job *fifo.Job) { job.ID++ },
		"the group":    func(job *fifo.Job) { job.GroupID = "other" },
		"the attempts": func(job *fifo.Job) { job.Attempts, job.MaxAttempts = 7, 0 },
		"all":          func(job *fifo.Job) { *job = fifo.Job{} },
	}
	b := newEffects(t)
	b.ledger.overlaps, b.ledger.unordered = true, true // it keeps its books by the Jobs
	for name := range changes {
		b.send(name, "1", "2", "3")
	}
	ran, n, want := make(map[string]string), 0, []int(nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		name, payload, attempt := job.GroupID, string(job.Payload), job.Attempt()
		ran[name] += payload
		n++
		if err := write(ctx, job, n); err != nil {
			return err
		}
		changes[name](job)
		if payload == "1" && attempt == 1 {
			return errOnPurpose
		}
		want = append(want, n)
		return nil
	}, oneLane))
	for name := range changes {
		require.Equal(t, "1123", ran[name], name)
	}
	require.Equal(t, want, b.effects())
}

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
	b := by.on(newBed(t))
	answers := map[string]struct{ says, want time.Duration }{
		"an hour": {time.Hour, time.Hour}, "too long": {math.MaxInt64, fifo.MaxDelay},
	}
	for group := range answers {
		b.send(group, "x")
	}
	asked := make(chan int, 10)
	b.run(b.worker(failing(1, errOnPurpose), func(w *fifo.Worker) {
		w.Retry = func(job *fifo.Job, err error) time.Duration {
			if err == errOnPurpose { //nolint:errorlint // exactly that one
				asked <- job.Attempt()
			}
			return answers[job.GroupID].says
		}
	}))
	for group, x := range answers {
		require.Equal(t, 1, receive(t, asked, "Retry to be asked"))
		b.ends(group, 1)
		job := only(t, b.jobsOf(b.q.Group(group)))
		require.InDelta(t, x.want.Seconds(), time.Until(job.RunAt).Seconds(), 60, group)
	}
}

func TestHandlerChangesWhatOthersAreTold(t *testing.T) {
	changes := map[string]func(job *fifo.Job){
		"the payload, by one as long": func(job *fifo.Job) { job.Payload = []byte("new") },
		"the headers":                 func(job *fifo.Job) { job.Headers["a"] = "new" },
		"the priority":                func(job *fifo.Job) { job.Priority = 9 },
		"the attempts":                func(job *fifo.Job) { job.Attempts++ },
		"the failures":                func(job *fifo.Job) { job.Failures = make([]fifo.Failure, 1) },
		"the death":                   func(job *fifo.Job) { job.DiedAt = time.Now() },
	}
	told := make(chan fifo.Job, 100)
	tell := func(job *fifo.Job) {
		told <- fifo.Job{
			GroupID: job.GroupID, Payload: job.Payload, Headers: job.Headers, Priority: job.Priority,
			Attempts: job.Attempts, Failures: job.Failures, DiedAt: job.DiedAt,
		}
	}
	b := newBed(t, func(c *fifo.Config) {
		c.Hooks = []fifo.Hooks{{Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
			tell(job)
		}}}
	})
	b.run(b.worker(func(_ context.Context, job *fifo.Job) error {
		changes[strings.TrimPrefix(job.GroupID, "with headers, ")](job)
		return errOnPurpose
	}, func(w *fifo.Worker) {
		w.Retry = func(job *fifo.Job, _ error) time.Duration {
			tell(job)
			return time.Hour
		}
	}, oneLane))
	for name := range changes {
		for prefix, headers := range map[string]fifo.Headers{"": nil, "with headers, ": {"a": "old"}} {
			if headers == nil && name == "the headers" {
				continue
			}
			want := fifo.Job{GroupID: prefix + name, Payload: []byte("old"), Headers: headers, Priority: 3}
			b.receipts(fifo.Message{
				Queue: "q", GroupID: want.GroupID, Payload: "old", Priority: 3, Headers: headers,
			})
			require.Equal(t, want, receive(t, told, "what Retry is told"))
			require.Equal(t, want, receive(t, told, "what Settled is told"))
		}
	}
}
