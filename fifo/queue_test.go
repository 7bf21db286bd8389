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

// A queue with a lane kept does not wait for the others' jobs.
func TestLaneIsKept(t *testing.T) { overLeases(t, testLaneIsKept) }

func testLaneIsKept(t *testing.T, by lease) {
	b := by.on(newBed(t), "long", "short")
	b.sendMany("long", 5, 1)
	long := newGauge()
	w := &fifo.Worker{Client: b.client, Concurrency: 3}
	w.Handle("long", long.handle)
	w.HandleQueue("short", fifo.Queue{Handler: b.ledger.record(nop), MinLanes: 1})
	run := b.run(w)
	long.reach(t, 2)
	b.sendMany("short", 5, 1)
	await(t, "the short jobs are done", func() bool { return b.ledger.started() == 5 })
	require.EqualValues(t, 2, long.most.Load(), "the lane is kept")
	require.NoError(t, w.SetLanes("short", 0, 0))
	long.reach(t, 3)
	close(long.open)
	run.finish()
}

// A queue has no more lanes than it may, and has more as soon as it may.
func TestLanesAreLimited(t *testing.T) { overLeases(t, testLanesAreLimited) }

func testLanesAreLimited(t *testing.T, by lease) {
	b := by.on(newBed(t), "narrow", "wide")
	b.sendMany("narrow", 9, 1)
	b.sendMany("wide", 2, 1)
	narrow, wide := newGauge(), newGauge()
	w := &fifo.Worker{Client: b.client, Concurrency: 6}
	w.HandleQueue("narrow", fifo.Queue{Handler: narrow.handle, MaxLanes: 1})
	w.Handle("wide", wide.handle)
	run := b.run(w)
	wide.reach(t, 2)
	narrow.reach(t, 1)
	require.ErrorIs(t, w.SetLanes("narrow", 7, 0), fifo.ErrInvalidWorker, "there are six")
	require.ErrorIs(t, w.SetLanes("narrow", 3, 2), fifo.ErrInvalidWorker)
	require.ErrorIs(t, w.SetLanes("unknown", 1, 1), fifo.ErrInvalidWorker)
	require.EqualValues(t, 1, narrow.most.Load(), "nothing was changed")
	require.NoError(t, w.SetLanes("narrow", 0, 3))
	narrow.reach(t, 3)
	close(narrow.open)
	close(wide.open)
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
	w := &fifo.Worker{Client: b.client, Concurrency: 2, MaxAttempts: 5, Retry: waiting(time.Hour)}
	w.HandleQueue("own", fifo.Queue{Handler: h, MaxAttempts: 2, Retry: waiting(0), JobTimeout: -1})
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
	b.send("g", nil)
	b.work(b.each(fifo.Queue{MaxAttempts: -1}, failing(2*fifo.DefaultMaxAttempts, errOnPurpose)))
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
	for tenant, groups := range map[string]int{"many/": many / each, "z few/": few} {
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
			SELECT 'q', $1 || i, '' FROM generate_series(1, $2::integer) i, generate_series(1, $3::integer)`,
			tenant, groups, each)
	}
	var ofMany, ofFew, first atomic.Int64
	r := b.run(b.each(fifo.Queue{Share: share}, func(_ context.Context, job *fifo.Job) error {
		switch {
		case tenant(job.GroupID) == "many":
			ofMany.Add(1)
		case ofFew.Add(1) == few*each:
			first.Store(ofMany.Load())
		}
		return nil
	}))
	await(b.t, "the few", func() bool { return first.Load() > 0 })
	require.NoError(b.t, r.stop())
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
	b := newBed(t)
	b.sendMany("q", 30, 1)
	run := b.run(b.each(fifo.Queue{Share: func(group string) string {
		switch {
		case strings.HasSuffix(group, "3"):
			panic("no such tenant")
		case strings.HasSuffix(group, "7"):
			runtime.Goexit()
		}
		return group
	}}, nop, func(w *fifo.Worker) { w.Concurrency = 2 }))
	b.drained()
	b.sendAll(fifo.Message{Queue: "q", GroupID: "late 3"}, fifo.Message{Queue: "q", GroupID: "late 7"})
	run.finish()
	require.Len(t, b.log.lines("Share panicked"), 1)
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
