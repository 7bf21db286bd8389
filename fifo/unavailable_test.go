package fifo_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What is put off waits as it says, or as the policy does, also if the handler has ended the job's transaction.
func TestPutOffUntil(t *testing.T) {
	const least, most = 100 * time.Millisecond, 5 * time.Second
	rows := map[string]struct {
		policy time.Duration
		err    error
		want   time.Duration
	}{
		"snooze, none":          {0, fifo.Snooze(0, nil), least},
		"snooze, less":          {0, fifo.Snooze(-time.Hour, nil), least},
		"snooze, an hour":       {0, fifo.Snooze(time.Hour, nil), time.Hour},
		"snooze, too long":      {0, fifo.Snooze(1<<62, nil), fifo.MaxDelay},
		"none":                  {0, fifo.Unavailable(nil), least},
		"a second":              {time.Second, fifo.Unavailable(nil), time.Second},
		"an hour":               {time.Hour, fifo.Unavailable(nil), most},
		"retry after":           {0, fifo.Unavailable(fifo.RetryAfter(time.Hour, nil)), time.Hour},
		"around a retry after":  {0, fifo.RetryAfter(time.Hour, fifo.Unavailable(nil)), time.Hour},
		"snooze inside":         {0, fifo.Unavailable(fifo.Snooze(time.Hour, nil)), time.Hour},
		"around a snooze":       {0, fifo.Snooze(time.Hour, fifo.Unavailable(nil)), time.Hour},
		"joined with an error":  {time.Hour, errors.Join(errOnPurpose, fifo.Unavailable(nil)), most},
		"by itself in a batch":  {time.Hour, fifo.BatchError{1: fifo.Unavailable(nil)}, most},
		"of a transaction lost": {time.Second, fifo.Unavailable(nil), time.Second},
		"snooze of one lost":    {0, fifo.Snooze(time.Hour, nil), time.Hour},
	}
	b := newBed(t)
	var before sync.Map
	w := b.bare([]func(*fifo.Worker){func(w *fifo.Worker) { w.PollInterval = time.Hour }})
	for name, x := range rows { // a queue each: one that says it is unavailable is probed
		b.sendAll(fifo.Message{Queue: name, GroupID: name})
		w.HandleQueue(name, fifo.Queue{
			Retry: func(job *fifo.Job, _ error) time.Duration { return time.Duration(job.Attempt()) * x.policy },
			Handler: b.ledger.record(func(ctx context.Context, job *fifo.Job) error {
				before.Store(name, query[time.Time](b, "SELECT clock_timestamp()"))
				if strings.HasSuffix(name, "lost") {
					return errors.Join(exec(ctx, job, "ROLLBACK"), x.err)
				}
				return x.err
			}),
		})
	}
	r := b.run(w)
	for name := range rows {
		require.Equal(t, fifo.Snoozed, b.ends(name, 1)[0], name)
	}
	require.NoError(t, r.stop())
	for _, job := range b.jobs() {
		require.Zero(t, job.Attempts, job.Queue)
		require.Empty(t, job.Failures, job.Queue)
		from, _ := before.Load(job.Queue)
		until := from.(time.Time).Add(rows[job.Queue].want)
		require.WithinRange(t, job.RunAt, until, until.Add(time.Minute), job.Queue)
	}
	_, errs, _ := b.ledger.of("snooze, none")
	require.EqualError(t, errs[0], "snoozed")
}

// A batch of groups that cannot do anything has each of them wait, and none of them tried again by itself.
func TestUnavailableBatchOfGroups(t *testing.T) {
	pgtest.OverEach(t, []error{fifo.Unavailable(nil), fifo.Snooze(0, nil)}, testUnavailableBatchOfGroups)
}

func testUnavailableBatchOfGroups(t *testing.T, says error) {
	b := newBed(t)
	b.exec("CREATE TABLE effects (v integer)")
	b.sendMany("q", 3, 2)
	given, down := 0, true
	w := b.slice(fifo.Queue{BatchGroups: 10}, func(ctx context.Context, jobs []*fifo.Job) error {
		if err := exec(ctx, jobs[0], "INSERT INTO effects VALUES ($1)", len(jobs)); err != nil {
			return err
		}
		if down {
			given += len(jobs)
			down = len(jobs) == 1
			return says
		}
		return nil
	}, oneLane)
	b.work(w)
	stats := w.Stats()
	require.EqualValues(t, given, stats.Snoozed)
	require.EqualValues(t, 6, stats.Succeeded)
	require.Zero(t, stats.Retried+stats.Buried+stats.Unknown+stats.Returned)
	require.Equal(t, 6, query[int](b, "SELECT sum(v) FROM effects"))
}

// A downstream of many groups is down for some seconds: no attempt is counted, few jobs are tried while it lasts, other
// queues go on, and all is done soon after.
func TestOutage(t *testing.T) { overLeases(t, testOutage) }

func testOutage(t *testing.T, by lease) {
	const groups, lanes = 100, 10
	b := newBed(t)
	by.on(b, "other")
	b.sendMany("q", groups, 1)
	var down atomic.Bool
	down.Store(true)
	var tried atomic.Int64
	w := b.worker(func(_ context.Context, job *fifo.Job) error {
		if job.Attempts > 0 {
			return fifo.DeadLetter(errOnPurpose)
		}
		if !down.Load() {
			return nil
		}
		tried.Add(1)
		return fifo.Unavailable(errOnPurpose)
	}, func(w *fifo.Worker) { w.Concurrency, w.MaxAttempts = lanes, 1 })
	w.Handle("other", b.ledger.record(nop))
	r := b.run(w)
	probed := func() bool { return len(w.Stats().Probed) > 0 }
	await(t, "a breaker that opens", probed)
	require.Equal(t, []string{"q"}, w.Stats().Probed)
	b.sendMany("other", groups, 2)
	await(t, "the other queue's jobs", func() bool { return w.Stats().Succeeded == groups*2 })
	require.True(t, probed())
	first, since := tried.Load(), time.Now()
	await(t, "some probes", func() bool { return tried.Load() >= first+3 })
	require.LessOrEqual(t, first, int64(3*lanes))
	// One each half a second, and what lanes had begun with before the breaker opened.
	require.LessOrEqual(t, tried.Load()-first, lanes+int64(time.Since(since)/(400*time.Millisecond)))
	require.True(t, probed())

	down.Store(false)
	r.finish()
	stats := w.Stats()
	require.EqualValues(t, groups*3, stats.Succeeded)
	require.Equal(t, tried.Load(), stats.Snoozed)
	require.Zero(t, stats.Retried+stats.Buried+stats.Returned+stats.Unknown)
	require.Empty(t, stats.Probed)
	require.Empty(t, b.deadLetters())
	require.Len(t, b.log.lines("level=WARN msg=\"pgfifo: queue is unavailable"), 1)
	require.Len(t, b.log.lines("level=INFO msg=\"pgfifo: queue is available again"), 1)
}

// What a probe says of other things than the downstream, it neither closes the breaker nor delays the next probe.
func TestProbeThatSaysNothing(t *testing.T) {
	pgtest.OverAll(t, map[string]fifo.Handler{
		"an error": func(context.Context, *fifo.Job) error { return errOnPurpose },
		"a snooze": func(context.Context, *fifo.Job) error { return fifo.Snooze(0, nil) },
		"a panic":  func(context.Context, *fifo.Job) error { panic(errOnPurpose) },
		"lost": func(ctx context.Context, job *fifo.Job) error {
			err := exec(ctx, job, "SELECT pg_terminate_backend(pg_backend_pid())")
			return fifo.Unavailable(err)
		},
	}, func(t *testing.T, end fifo.Handler) {
		b := newBed(t)
		b.ledger.overlaps = true
		b.sendMany("q", 10, 1)
		var up atomic.Bool
		var calls atomic.Int64
		w := b.worker(func(ctx context.Context, job *fifo.Job) error {
			switch {
			case calls.Add(1) <= 5:
				return fifo.Unavailable(nil)
			case up.Load():
				return nil
			}
			return end(ctx, job)
		}, oneLane, func(w *fifo.Worker) {
			w.MaxAttempts = -1
			w.Retry = waiting(10 * time.Millisecond)
		})
		r := b.run(w)
		// With the pauses of probes that say Unavailable this would take longer than anybody waits.
		await(t, "probes", func() bool { return calls.Load() >= 5+10 })
		require.Equal(t, []string{"q"}, w.Stats().Probed)
		up.Store(true)
		r.finish()
		require.Empty(t, w.Stats().Probed)
	})
}

// A batch of groups with a Handler stops when the fifth of them has said so. The others are given back.
func TestBatchOfGroupsThatIsProbed(t *testing.T) {
	b := newBed(t)
	b.sendMany("q", 50, 1)
	w := b.each(fifo.Queue{BatchGroups: 50}, func(context.Context, *fifo.Job) error {
		return fifo.Unavailable(nil)
	}, oneLane)
	r := b.run(w)
	await(t, "a breaker that opens", func() bool { return len(w.Stats().Probed) > 0 })
	await(t, "the end of the batch", func() bool { return w.Stats().Snoozed >= 5 })
	require.NoError(t, r.stop())
	require.Less(t, b.ledger.started(), 25)
	require.Equal(t, 50, b.count("jobs"))
}
