package fifo_test

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A gate is a handler that lets jobs end when it is told to.
type gate struct {
	begun chan string // queues
	open  chan struct{}
}

func newGate() *gate { return &gate{make(chan string, 100), make(chan struct{})} }

func (g *gate) handle(ctx context.Context, job *fifo.Job) error {
	g.begun <- job.Queue
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// A queue with a lane kept does not wait for the others' jobs.
func TestLaneIsKept(t *testing.T) { overLeases(t, testLaneIsKept) }

func testLaneIsKept(t *testing.T, by lease) {
	b := by.on(newBed(t), "long", "short")
	b.sendMany("long", 5, 1)
	g := newGate()
	w := &fifo.Worker{Client: b.client, Concurrency: 3}
	w.HandleQueue("long", fifo.Queue{Handler: g.handle})
	w.HandleQueue("short", fifo.Queue{Handler: b.ledger.record(nop), MinLanes: 1})
	run := b.run(w)
	for range 2 {
		require.Equal(t, "long", receive(t, g.begun, "a long job"))
	}
	b.sendMany("short", 5, 1)
	await(t, "the short jobs are done", func() bool { return b.ledger.started() == 5 })
	require.Empty(t, g.begun, "the lane is kept")
	require.NoError(t, w.SetLanes("short", 0, 0))
	require.Equal(t, "long", receive(t, g.begun, "it is not kept any more"))
	close(g.open)
	run.finish()
}

// A queue has no more lanes than it may, and has more as soon as it may.
func TestLanesAreLimited(t *testing.T) { overLeases(t, testLanesAreLimited) }

func testLanesAreLimited(t *testing.T, by lease) {
	b := by.on(newBed(t), "narrow", "wide")
	b.sendMany("narrow", 9, 1)
	b.sendMany("wide", 2, 1)
	g := newGate()
	w := &fifo.Worker{Client: b.client, Concurrency: 6}
	w.HandleQueue("narrow", fifo.Queue{Handler: g.handle, MaxLanes: 1})
	w.HandleQueue("wide", fifo.Queue{Handler: g.handle})
	run := b.run(w)
	count := make(map[string]int)
	for range 3 {
		count[receive(t, g.begun, "a job")]++
	}
	require.Equal(t, map[string]int{"narrow": 1, "wide": 2}, count)
	require.Empty(t, g.begun)
	require.ErrorIs(t, w.SetLanes("narrow", 7, 0), fifo.ErrInvalidWorker, "there are six")
	require.ErrorIs(t, w.SetLanes("narrow", 3, 2), fifo.ErrInvalidWorker)
	require.ErrorIs(t, w.SetLanes("unknown", 1, 1), fifo.ErrInvalidWorker)
	require.Empty(t, g.begun, "nothing was changed")
	require.NoError(t, w.SetLanes("narrow", 0, 3))
	for range 2 {
		require.Equal(t, "narrow", receive(t, g.begun, "another job"))
	}
	require.Empty(t, g.begun)
	close(g.open)
	run.finish()
}

// What SetLanes asks for while Run begins fits, or Run returns an error.
func TestSetLanesWhileRunBegins(t *testing.T) {
	b := newBed(t)
	w := b.worker(nop)
	w.Handle("other", nop)
	w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.AfterConnect = func(context.Context, *pgx.Conn) error { return w.SetLanes("q", w.Concurrency, 0) }
	}))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.ErrorIs(t, w.Run(ctx), fifo.ErrInvalidWorker)
}

// A queue's settings are its own, and what it does not say is the worker's.
func TestQueueHasItsOwnSettings(t *testing.T) {
	b := newBed(t)
	for _, queue := range []string{"own", "worker's"} {
		b.sendAll(fifo.Message{Queue: queue, GroupID: "g"})
	}
	type seen struct {
		queue    string
		attempts int
		most     int
		timeout  bool // there is one
	}
	jobs := make(chan seen, 10)
	h := func(ctx context.Context, job *fifo.Job) error {
		_, timeout := ctx.Deadline()
		jobs <- seen{job.Queue, job.Attempt(), job.MaxAttempts, timeout}
		return errOnPurpose
	}
	now := func(*fifo.Job, error) time.Duration { return 0 }
	never := func(*fifo.Job, error) time.Duration { return time.Hour }
	w := &fifo.Worker{Client: b.client, Concurrency: 2, MaxAttempts: 5, Retry: never}
	w.HandleQueue("own", fifo.Queue{Handler: h, MaxAttempts: 2, Retry: now, JobTimeout: -1})
	w.Handle("worker's", h)
	run := b.run(w)
	await(t, "all but one are tried", func() bool { return b.count("dead_letters") == 1 && len(jobs) == 3 })
	require.NoError(t, run.stop())
	got := make(map[seen]bool)
	for range 3 {
		got[<-jobs] = true
	}
	require.Equal(t, map[seen]bool{
		{"own", 1, 2, false}: true, {"own", 2, 2, false}: true, {"worker's", 1, 5, true}: true,
	}, got)
	require.Equal(t, "own", b.deadLetters()[0].Queue)
	b.exec("DELETE FROM pgfifo.jobs")
}

// Without a limit a job is tried for ever.
func TestNoLimitOfAttempts(t *testing.T) {
	b := newBed(t)
	b.sendAll(fifo.Message{Queue: "q", GroupID: "g"})
	w := &fifo.Worker{Client: b.client, Concurrency: 1, Retry: func(*fifo.Job, error) time.Duration { return 0 }}
	h := func(_ context.Context, job *fifo.Job) error {
		if job.Attempt() <= 2*fifo.DefaultMaxAttempts {
			return errOnPurpose
		}
		return nil
	}
	w.HandleQueue("q", fifo.Queue{MaxAttempts: -1, Handler: h})
	b.work(w)
	require.Zero(t, b.count("dead_letters"))
}

// tenant is the share of a group that is named tenant/group.
func tenant(group string) string {
	t, _, _ := strings.Cut(group, "/")
	return t
}

// ahead has a tenant with many groups, and one with few whose names come last, and a worker with one lane. It returns
// how many jobs of the many were done before the last one of the few.
func (b *bed) ahead(many int, share func(group string) string) int {
	b.t.Helper()
	const few, each = 5, 20
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'many/' || i, '' FROM generate_series(1, $1::integer) i, generate_series(1, $2::integer)`,
		many/each, each)
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'z few/' || i, '' FROM generate_series(1, $1::integer) i, generate_series(1, $2::integer)`,
		few, each)
	var ofMany, ofFew, first atomic.Int64
	w := &fifo.Worker{Client: b.client, Concurrency: 1}
	w.HandleQueue("q", fifo.Queue{Share: share, Handler: b.ledger.record(func(_ context.Context, job *fifo.Job) error {
		switch {
		case tenant(job.GroupID) == "many":
			ofMany.Add(1)
		case ofFew.Add(1) == few*each:
			first.Store(ofMany.Load())
		}
		return nil
	})})
	b.work(w)
	require.EqualValues(b.t, many, ofMany.Load())
	require.EqualValues(b.t, few*each, ofFew.Load())
	return int(first.Load())
}

// A tenant with a few groups does not wait for the groups of one with many: it has every other turn or so. Without
// Share it waits for as many turns of each of the others' groups as it has jobs.
func TestShare(t *testing.T) {
	const many = 1600
	with := newBed(t).ahead(many, tenant)
	other := bedOn(t, pgtest.URL(t))
	without := other.ahead(many, nil)
	t.Logf("behind %d jobs of %d, and %d without Share", with, many, without)
	require.Less(t, with, many/4)
	require.Greater(t, without, many/2)
}

// A Share that panics, or ends its goroutine, makes its groups those of share "", and harms nothing else.
func TestShareThatPanics(t *testing.T) {
	var log logFile
	b := newBed(t, log.set)
	b.sendMany("q", 30, 1)
	w := &fifo.Worker{Client: b.client, Concurrency: 2}
	w.HandleQueue("q", fifo.Queue{
		Handler: b.ledger.record(nop),
		Share: func(group string) string {
			switch {
			case strings.HasSuffix(group, "3"):
				panic("no such tenant")
			case strings.HasSuffix(group, "7"):
				runtime.Goexit()
			}
			return group
		},
	})
	run := b.run(w)
	b.drained()
	b.sendAll(fifo.Message{Queue: "q", GroupID: "late 3"}, fifo.Message{Queue: "q", GroupID: "late 7"})
	run.finish()
	require.Len(t, log.lines("Share panicked"), 1)
}

func TestInvalidWeights(t *testing.T) {
	t.Parallel()
	for name, q := range map[string]fifo.Queue{
		"without a share": {Handler: nop, Weights: map[string]int{"a": 2}},
		"none":            {Handler: nop, Share: tenant, Weights: map[string]int{"a": 0}},
		"too large":       {Handler: nop, Share: tenant, Weights: map[string]int{"a": fifo.MaxWeight + 1}},
	} {
		require.Panics(t, func() { new(fifo.Worker).HandleQueue("q", q) }, name)
	}
	weights := map[string]int{"a": fifo.MaxWeight}
	new(fifo.Worker).HandleQueue("q", fifo.Queue{Handler: nop, Share: tenant, Weights: weights})
}
