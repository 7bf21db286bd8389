package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A logbook keeps what is logged as an error, but for failed attempts.
type logbook struct {
	slog.Handler

	mu    sync.Mutex
	lines []string
}

func (l *logbook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (l *logbook) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	if line == "pgfifo: dead letter" || line == "pgfifo: attempt failed" {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key != "stack" && a.Key != "late" {
			line += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

func (l *logbook) count(line string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, have := range l.lines {
		if have == line {
			n++
		}
	}
	return n
}

// A stubborn handler does not listen to its context. It returns nil when it is released.
type stubborn struct {
	started chan *fifo.Job
	release chan struct{}
}

func newStubborn() *stubborn { return &stubborn{make(chan *fifo.Job, 100), make(chan struct{})} }

func (h *stubborn) handle(_ context.Context, job *fifo.Job) error {
	h.started <- job
	<-h.release
	return nil
}

type overdue struct {
	id    int64
	late  time.Duration
	cause error
}

// watched returns a bed that keeps what is told of handlers that are overdue, by log and hook.
func watched(t *testing.T) (*bed, *logbook, <-chan overdue) {
	t.Helper()
	log, told := &logbook{}, make(chan overdue, 100)
	b := newBed(t, func(c *fifo.Config) {
		c.Logger = slog.New(log)
		c.Hooks[0].Overdue = func(ctx context.Context, job *fifo.Job, late time.Duration, cause error) {
			if _, err := job.Tx(ctx); !errors.Is(err, fifo.ErrNoJob) || ctx.Err() != nil {
				cause = errors.Join(cause, err, ctx.Err())
			}
			told <- overdue{job.ID, late, cause}
		}
	})
	return b, log, told
}

// A handler that goes on after its context has ended is told of, again and again, whatever ended the context. What it
// returns in the end counts.
func TestOverdueIsTold(t *testing.T) { overLeases(t, testOverdueIsTold) }

func testOverdueIsTold(t *testing.T, by lease) {
	pgtest.OverNamed(t, map[string]error{
		"timeout": fifo.ErrJobTimeout, "shutdown": fifo.ErrShutdown, "lost": fifo.ErrLost,
	}, func(t *testing.T, name string, cause error) {
		b, log, told := watched(t)
		by.on(b)
		h := newStubborn()
		id := b.send("g", nil, nil)[0]
		w := b.worker(h.handle, watchful, func(w *fifo.Worker) {
			w.DrainTimeout = -1
			if name == "timeout" {
				w.JobTimeout = 200 * time.Millisecond
			}
		})
		r := b.run(w)
		receive(t, h.started, "the handler")
		switch name {
		case "shutdown":
			r.cancel()
		case "lost":
			require.NoError(t, b.kill(t.Context(), b.holder("g")))
		}
		first, second := receive(t, told, "the first report"), receive(t, told, "the second report")
		require.Equal(t, id, first.id)
		require.ErrorIs(t, first.cause, cause)
		require.Less(t, first.late, second.late)
		line := fmt.Sprintf("pgfifo: handler ignores the end of its context "+
			"queue=q group=g job=%d attempt=1 jobs=1 cause=%v", id, first.cause)
		require.GreaterOrEqual(t, log.count(line), 2, "%q", log.lines)
		require.Equal(t, 1, w.Stats().Overdue)
		require.Equal(t, []int64{id}, b.ledger.order(), "its worker leaves the group alone until it has returned")
		close(h.release)
		outcome := fifo.Succeeded
		if name == "lost" {
			outcome = fifo.Unknown
		}
		await(t, "the outcome", func() bool { return len(b.ledger.outcomes()) > 0 })
		require.Equal(t, outcome, b.ledger.outcomes()[0])
		require.Zero(t, w.Stats().Overdue)
		require.EqualValues(t, 1, w.Stats().TimesOverdue)
		require.Zero(t, w.Stats().TimesAbandoned)
		require.NoError(t, r.stop())
	})
}

// A handler that ends soon after its context is none of that.
func TestNotOverdue(t *testing.T) {
	b, log, told := watched(t)
	h := newBlocking()
	b.send("g", nil)
	w := b.worker(h.handle, func(w *fifo.Worker) { w.JobTimeout, w.AbandonAfter = 500*time.Millisecond, patience })
	b.work(w)
	require.Empty(t, told)
	require.Empty(t, log.lines)
	require.Zero(t, w.Stats().TimesOverdue)
	require.Zero(t, w.Stats().TimesAbandoned)
}

// A timeout that is as good as none stays so for a batch.
func TestLongestTimeout(t *testing.T) {
	b := newBed(t)
	b.send("g", nil, nil)
	var sizes []int
	b.work(b.slice(fifo.Queue{BatchJobs: 4}, func(ctx context.Context, jobs []*fifo.Job) error {
		sizes = append(sizes, len(jobs))
		return ctx.Err()
	}, func(w *fifo.Worker) { w.JobTimeout = 200 * 365 * 24 * time.Hour }))
	require.Equal(t, []int{2}, sizes, "one attempt of both")
}
