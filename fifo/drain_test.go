package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// blocking is a handler that tells when it runs, and waits until it may go on or its context ends.
type blocking struct {
	started chan int64
	release chan struct{}
	causes  chan error
}

func newBlocking() *blocking {
	return &blocking{make(chan int64, 100), make(chan struct{}), make(chan error, 100)}
}

func (h *blocking) handle(ctx context.Context, job *fifo.Job) error {
	h.started <- job.ID
	select {
	case <-h.release:
		return nil
	case <-ctx.Done():
		h.causes <- context.Cause(ctx)
		return ctx.Err()
	}
}

// A worker that is told to stop lets the running handlers end, and starts none.
func TestDrain(t *testing.T) { overLeases(t, testDrain) }

func testDrain(t *testing.T, by lease) {
	b := by.on(newBed(t))
	h := newBlocking()
	b.send("a", nil, nil)
	b.send("b", nil, nil)
	r := b.run(b.worker(h.handle))
	receive(t, h.started, "a handler")
	receive(t, h.started, "the other")
	r.cancel()
	close(h.release)
	require.NoError(t, r.wait())
	require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Succeeded}, b.ledger.outcomes())
	require.Empty(t, h.causes)
	require.Equal(t, 2, b.count("jobs"))
}

// When the drain timeout has passed the handlers are told, and what they give back counts for nothing, not even if they
// had begun to write or only then ask for the transaction. One that succeeds although it was told has succeeded.
func TestDrainTimeout(t *testing.T) { overLeases(t, testDrainTimeout) }

func testDrainTimeout(t *testing.T, by lease) {
	last := map[string]fifo.Handler{
		"succeeds": nop,
		"plain":    func(ctx context.Context, _ *fifo.Job) error { return ctx.Err() },
		"asks then": func(ctx context.Context, job *fifo.Job) error {
			_, err := job.Tx(ctx)
			_, perr := job.PgxTx(ctx)
			return errors.Join(err, perr, ctx.Err())
		},
		"panics": func(ctx context.Context, _ *fifo.Job) error { panic(ctx.Err()) },
	}
	pgtest.OverEach(t, []time.Duration{-1, 50 * time.Millisecond}, func(t *testing.T, drain time.Duration) {
		b := by.on(newEffects(t))
		h := newBlocking()
		ids := make(map[string][]int64)
		for group := range last {
			ids[group] = b.send(group, nil, nil)
		}
		w := b.worker(func(ctx context.Context, job *fifo.Job) error {
			if job.GroupID != "asks then" {
				if err := write(ctx, job, int(job.ID)); err != nil {
					return err
				}
			}
			if err := h.handle(ctx, job); err == nil {
				return nil
			}
			return last[job.GroupID](ctx, job)
		}, func(w *fifo.Worker) { w.Concurrency, w.DrainTimeout = len(last), drain })
		r := b.run(w)
		for range last {
			receive(t, h.started, "a handler")
		}
		require.NoError(t, r.stop())
		for group := range last {
			require.Equal(t, fifo.ErrShutdown, receive(t, h.causes, "the cause"))
			outcome, left := fifo.Returned, ids[group]
			if group == "succeeds" {
				outcome, left = fifo.Succeeded, left[1:]
			}
			outcomes, errs, _ := b.ledger.of(group)
			require.Equal(t, []fifo.Outcome{outcome}, outcomes, group)
			require.Equal(t, outcome == fifo.Returned, errs[0] != nil, group)
			for i, job := range b.jobsOf(b.q.Group(group)) {
				require.Equal(t, left[i], job.ID)
				require.Zero(t, job.Attempts)
				require.Empty(t, job.Failures)
			}
		}
		require.Equal(t, 2*len(last)-1, b.count("jobs"))
		require.EqualValues(t, len(last)-1, w.Stats().Returned)
		require.Equal(t, []int{int(ids["succeeds"][0])}, b.effects())
		b.work(b.worker(func(_ context.Context, job *fifo.Job) error { // and it sees no crash in it
			require.Equal(t, 1, job.Attempt())
			return nil
		}, oneLane))
	})
}

// A handler that does not listen does not hold Run up for good, nor its group.
func TestHandlerIgnoresShutdown(t *testing.T) { overLeases(t, testHandlerIgnoresShutdown) }

func testHandlerIgnoresShutdown(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.overlaps = true
	ids := b.send("g", nil)
	h := newStubborn()
	w := b.worker(h.handle, func(w *fifo.Worker) { w.DrainTimeout = -1 })
	r := b.run(w)
	receive(t, h.started, "the handler")
	err := r.stop()
	require.ErrorIs(t, err, fifo.ErrDrainTimeout)
	require.EqualError(t, err, fmt.Sprintf("fifo: drain timeout: handlers abandoned: q/g job %d", ids[0]))
	require.Equal(t, []fifo.Outcome{fifo.Unknown}, b.ledger.outcomes())
	require.Equal(t, 1, w.Stats().Abandoned)
	b.work(b.worker(nop)) // while the first handler still runs
	require.Equal(t, append(ids, ids...), b.ledger.order())
	close(h.release)
	await(t, "the end of the abandoned handler", func() bool { return w.Stats().Abandoned == 0 })
	require.Equal(t, fifo.Stats{
		Unknown: 1, TimesOverdue: 1, TimesAbandoned: 1, Claims: w.Stats().Claims, Missed: w.Stats().Missed,
	}, w.Stats())
}

// A job whose claim was under way when the worker was told to stop is given back, and its handler not called.
func TestStartsAfterStop(t *testing.T) {
	b := newBed(t)
	h := newBlocking()
	b.send("g", "first", "second")
	w := b.worker(h.handle, oneLane)
	r := b.run(w)
	receive(t, h.started, "the first handler")
	await(t, "the listener", func() bool { return b.listeners() == 1 })
	lock := pgtest.Conn(t, b.url)
	// Every claim reads this table: so has the one that is held, and the next one will wait.
	locked := beside(func() error { return second(lock.Exec(t.Context(), "BEGIN; LOCK pgfifo.pauses")) })
	await(t, "the lock", func() bool { return b.waiting("BEGIN; LOCK") })
	h.release <- struct{}{}
	require.NoError(t, receive(t, locked, "the lock"))
	await(t, "the claim", func() bool { return b.waiting("-- Claims the head") })
	r.cancel()
	await(t, "the worker to stop", func() bool { return b.listeners() == 0 })
	require.NoError(t, lock.Close(t.Context()))
	require.NoError(t, r.wait())
	require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ledger.outcomes())
	require.Empty(t, h.started)
	require.Equal(t, 1, b.count("jobs"))
	require.Zero(t, b.jobs()[0].Attempts)
}

// waiting reports whether a statement that begins so waits for a lock.
func (b *bed) waiting(statement string) bool {
	b.t.Helper()
	return query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(query, $1))`, statement)
}

// A lane that waits for the server does not hold up Run: a COMMIT may wait for a standby for good, here it does for a
// deferred trigger, and any statement for a lock on its table. Nobody knows what becomes of the job.
func TestStatementOutlivesDrain(t *testing.T) { overLeases(t, testStatementOutlivesDrain) }

func testStatementOutlivesDrain(t *testing.T, by lease) {
	type row struct{ before, lock string }
	pgtest.OverAll(t, map[string]row{
		"commit": {`
			CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
				'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
			CREATE CONSTRAINT TRIGGER slow AFTER DELETE ON pgfifo.jobs DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW EXECUTE FUNCTION wait()`, "SELECT pg_advisory_lock(1)"},
		"table": {"SELECT", "BEGIN; LOCK pgfifo.jobs IN SHARE MODE"},
	}, func(t *testing.T, block row) {
		b := by.on(newBed(t))
		b.exec(block.before)
		h := newBlocking()
		id := b.send("g", nil)[0]
		w := b.worker(h.handle, func(w *fifo.Worker) { w.DrainTimeout = -1 })
		r := b.run(w)
		receive(t, h.started, "the handler")
		lock := pgtest.Conn(t, b.url)
		_, err := lock.Exec(t.Context(), block.lock)
		require.NoError(t, err)
		h.release <- struct{}{}
		await(t, "the settling", func() bool { return b.waiting("") })
		require.EqualError(t, r.stop(), fmt.Sprintf("fifo: drain timeout: outcome unknown: q/g job %d", id))
		require.Equal(t, []fifo.Outcome{fifo.Unknown}, b.ledger.outcomes())
		require.NoError(t, lock.Close(t.Context()))
		b.work(b.worker(nop)) // if it was not done after all
	})
}

// Nor does a hook that does not return. Of its job it is known what became of it, also if that was an attempt that was
// lost, and no handler has run.
func TestHookOutlivesDrain(t *testing.T) {
	pgtest.OverAll(t, map[string]fifo.Outcome{
		"done": fifo.Succeeded, "lost": fifo.Retried,
	}, func(t *testing.T, becomes fifo.Outcome) {
		started, release := make(chan struct{}), make(chan struct{})
		b := newBed(t, hooked(fifo.Hooks{Settled: func(_ context.Context, _ *fifo.Job, outcome fifo.Outcome, _ error) {
			if outcome == becomes {
				close(started)
				<-release
			}
		}}))
		defer close(release)
		id := b.send("g", nil)[0]
		if becomes == fifo.Retried {
			b.exec("INSERT INTO pgfifo.attempt_marks (queue, group_id, id, attempt) VALUES ('q', 'g', $1, 1)", id)
		}
		r := b.run(b.worker(nop, func(w *fifo.Worker) { w.DrainTimeout = -1 }))
		receive(t, started, "the hook")
		want := fmt.Sprintf("fifo: drain timeout: hooks or Logger not returned: q/g job %d", id)
		require.EqualError(t, r.stop(), want)
		if becomes == fifo.Succeeded {
			require.Zero(t, b.count("jobs"))
		}
	})
}

// A stuckLog blocks at one message until it is released.
type stuckLog struct {
	slog.Handler
	at      string
	release chan struct{}
}

func (l stuckLog) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, l.at) {
		<-l.release
	}
	return nil
}

func (l stuckLog) Enabled(context.Context, slog.Level) bool { return true }

// A Logger that blocks keeps neither Run from returning, nor handlers from hearing that their session is lost.
func TestLoggerThatBlocks(t *testing.T) {
	stuck := func(t *testing.T, at string) func(*fifo.Config) {
		log := stuckLog{Handler: slog.DiscardHandler, at: at, release: make(chan struct{})}
		t.Cleanup(func() { close(log.release) })
		return func(c *fifo.Config) { c.Logger = slog.New(log) }
	}
	for _, at := range []string{"worker started", "worker stopped"} {
		t.Run(at, func(t *testing.T) {
			b := newBed(t, stuck(t, at))
			r := b.run(b.worker(nop))
			b.send("g", nil)
			b.drained()
			require.NoError(t, r.stop())
		})
	}
	t.Run("session lost", func(t *testing.T) {
		b := bySession.on(newBed(t, stuck(t, "the session that holds groups is lost")))
		started, told := make(chan struct{}), make(chan error, tuning.Many)
		once := sync.OnceFunc(func() { close(started) })
		b.send("g", nil)
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			once()
			<-ctx.Done()
			told <- context.Cause(ctx)
			return nil
		}, func(w *fifo.Worker) { w.DrainTimeout = -1 }))
		receive(t, started, "the handler")
		b.exec("SELECT pg_terminate_backend(pid) FROM pgfifo.keepers")
		require.ErrorIs(t, receive(t, told, "the end of its context"), fifo.ErrLost)
	})
}

// A worker that is told to stop while it starts has nothing to report.
func TestStopBeforeTheStart(t *testing.T) {
	b := newBed(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, b.worker(nop).Run(ctx))
}

// A worker that is told to stop ends the job that runs, not the batch: what is finished is done, the rest has not been
// tried.
func TestDrainInABatch(t *testing.T) {
	drains := map[string]time.Duration{"default": 0, "none": -1}
	pgtest.OverPairs(t, leases, drains, batches(5), func(
		t *testing.T, by lease, drain time.Duration, batch fifo.Queue,
	) {
		b := by.on(newList(t))
		h := newBlocking()
		b.fill(batch)
		b.send("f", nil)
		n := 0
		w := b.each(batch, func(ctx context.Context, job *fifo.Job) error {
			if err := note(ctx, job); err != nil {
				return err
			}
			if n++; n == 3 {
				return h.handle(ctx, job)
			}
			return nil
		}, func(w *fifo.Worker) { w.DrainTimeout = drain })
		r := b.run(w)
		id := receive(t, h.started, "the third")
		r.cancel()
		if drain == 0 {
			close(h.release)
		} else {
			require.Equal(t, fifo.ErrShutdown, receive(t, h.causes, "the cause"))
		}
		require.NoError(t, r.wait())
		require.Equal(t, 3, n, "no other was begun")
		done := 3
		if drain < 0 {
			done = 2
			require.EqualValues(t, 1, w.Stats().Returned)
		}
		require.EqualValues(t, done, w.Stats().Succeeded)
		require.Equal(t, done, query[int](b, "SELECT count(*) FROM list"))
		require.Equal(t, drain == 0, query[bool](b, "SELECT EXISTS (SELECT FROM list WHERE id = $1)", id))
		jobs := b.jobs()
		require.Len(t, jobs, 6-done)
		for _, job := range jobs {
			require.Zero(t, job.Attempts)
			require.Empty(t, job.Failures)
		}
		attempts := 0 // and the next worker sees no crash in it
		b.work(b.slice(batch, func(_ context.Context, jobs []*fifo.Job) error {
			for _, job := range jobs {
				attempts += job.Attempts
			}
			return nil
		}))
		require.Zero(t, attempts)
	})
}

func TestDrainTimeoutOfABatchHandler(t *testing.T) {
	rows := map[string]struct {
		last func(jobs []*fifo.Job, err error) error
		done int
	}{
		"error":    {func(_ []*fifo.Job, err error) error { return err }, 0},
		"panic":    {func(_ []*fifo.Job, err error) error { panic(err) }, 0},
		"named":    {func(jobs []*fifo.Job, err error) error { return fifo.BatchError{jobs[2].ID: err} }, 2},
		"finished": {func([]*fifo.Job, error) error { return nil }, 4},
	}
	b := newBed(t)
	h := newBlocking()
	ids := make(map[string][]int64)
	for name := range rows {
		ids[name] = b.send(name, nil, nil, nil, nil)
	}
	w := b.slice(fifo.Queue{BatchJobs: 4}, func(ctx context.Context, jobs []*fifo.Job) error {
		return rows[jobs[0].GroupID].last(jobs, h.handle(ctx, jobs[0]))
	}, func(w *fifo.Worker) { w.Concurrency, w.DrainTimeout = len(rows), -1 })
	r := b.run(w)
	for range rows {
		receive(t, h.started, "a handler")
	}
	require.NoError(t, r.stop())
	for range rows {
		require.Equal(t, fifo.ErrShutdown, receive(t, h.causes, "the cause"))
	}
	require.EqualValues(t, 6, w.Stats().Succeeded)
	require.EqualValues(t, 10, w.Stats().Returned)
	require.Zero(t, w.Stats().Retried)
	for name, x := range rows {
		jobs := b.jobsOf(b.q.Group(name))
		require.Len(t, jobs, 4-x.done, name)
		for i, job := range jobs {
			require.Equal(t, ids[name][i+x.done], job.ID, name)
			require.Zero(t, job.Attempts)
		}
	}
}
