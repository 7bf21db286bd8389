package fifo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A gauge knows how many handlers run at once. They wait until it is opened.
type gauge struct {
	now, most atomic.Int64
	open      chan struct{}
}

func newGauge() *gauge { return &gauge{open: make(chan struct{})} }

func (g *gauge) handle(ctx context.Context, _ *fifo.Job) error {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	select {
	case <-g.open:
	case <-ctx.Done():
	}
	return nil
}

// reach waits until n run at once.
func (g *gauge) reach(t *testing.T, n int64) {
	t.Helper()
	await(t, fmt.Sprint(n, " at once"), func() bool { return g.now.Load() == n })
}

// limit changes the limit of queue q.
func (b *bed) limit(from, to int) {
	b.t.Helper()
	require.NoError(b.t, b.q.Reconfigure(b.t.Context(), b.by.with(fifo.Settings{Limit: from}),
		b.by.with(fifo.Settings{Limit: to})))
}

// sendMany enqueues n jobs to each of so many groups.
func (b *bed) sendMany(queue string, groups, n int) []int64 {
	b.t.Helper()
	var msgs []fifo.Message
	for i := range groups * n {
		msgs = append(msgs, fifo.Message{Queue: queue, GroupID: fmt.Sprint("g", i%groups), Payload: i})
	}
	return b.sendAll(msgs...)
}

// gauged returns a worker that works q in five lanes, so much at a time.
func (b *bed) gauged(g *gauge, batch fifo.Queue) *fifo.Worker {
	return b.each(batch, g.handle, b.by.atOnce(5))
}

// gaugedBy returns a worker of eight lanes with another gauge at each time.
func (b *bed) gaugedBy(now *atomic.Pointer[gauge]) *fifo.Worker {
	return b.worker(func(ctx context.Context, job *fifo.Job) error {
		return now.Load().handle(ctx, job)
	}, b.by.atOnce(8))
}

// misses waits until the worker has claimed in vain so many times more.
func misses(t *testing.T, w *fifo.Worker, n int64) {
	t.Helper()
	from := w.Stats().Missed
	await(t, "claims in vain", func() bool { return w.Stats().Missed >= from+n })
}

// Workers together run as many jobs of a queue as its limit says, and no more, whatever a transaction takes. A queue
// without one that they work beside it has all other lanes.
func TestLimit(t *testing.T) { overLeases(t, testLimit) }

func testLimit(t *testing.T, by lease) {
	pgtest.OverAll(t, map[string]fifo.Queue{
		"one": {}, "jobs": {BatchJobs: 4}, "groups": {BatchGroups: 3},
	}, func(t *testing.T, batch fifo.Queue) {
		const limit = 3
		b := by.on(newBed(t), "r")
		b.limit(0, limit)
		b.sendMany("q", 20, 12)
		b.sendMany("r", 7, 1)
		q, r := newGauge(), newGauge()
		workers := []*fifo.Worker{b.gauged(q, batch), b.gauged(q, batch)}
		for _, w := range workers {
			w.Handle("r", b.ledger.record(r.handle))
			b.run(w)
		}
		q.reach(t, limit)
		r.reach(t, 7)
		close(r.open)
		for _, w := range workers {
			misses(t, w, 5)
		}
		close(q.open)
		b.drained()
		require.Equal(t, int64(limit), q.most.Load())
	})
}

// A worker that finds no slot tries again now and then, however many lanes and groups it has.
func TestOverLimitDoesNotSpin(t *testing.T) { overLeases(t, testOverLimitDoesNotSpin) }

func testOverLimitDoesNotSpin(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.limit(0, 1)
	b.sendMany("q", 200, 1)
	g := newGauge()
	first, second := b.gauged(g, fifo.Queue{}), b.gauged(g, fifo.Queue{BatchGroups: 5})
	b.run(first)
	g.reach(t, 1)
	b.run(second)
	misses(t, second, 10)
	began := time.Now()
	from := second.Stats().Missed
	misses(t, second, 25)
	missed := second.Stats().Missed - from
	looks := int64(time.Since(began)/(25*time.Millisecond)) + 1
	require.LessOrEqual(t, missed, 5*(looks+1), "five groups a look")
	close(g.open)
	b.drained()
	require.Equal(t, int64(1), g.most.Load())
}

// A limit holds for workers that have not heard of it: those that run when it is made, raised, lowered or taken away.
func TestLimitMadeBesideWorkers(t *testing.T) { overLeases(t, testLimitMadeBesideWorkers) }

func testLimitMadeBesideWorkers(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.sendMany("q", 30, 1)
	before, under := newGauge(), newGauge()
	var now atomic.Pointer[gauge]
	now.Store(before)
	w := b.gaugedBy(&now)
	b.run(w)
	before.reach(t, 8)
	now.Store(under)
	b.limit(0, 2)
	close(before.open)
	under.reach(t, 2)
	misses(t, w, 5)
	require.Equal(t, int64(2), under.most.Load())
	b.limit(2, 5)
	under.reach(t, 5)
	misses(t, w, 5)
	require.Equal(t, int64(5), under.most.Load())

	last := newGauge()
	now.Store(last)
	b.limit(5, 1)
	close(under.open)
	last.reach(t, 1)
	misses(t, w, 5)
	require.Equal(t, int64(1), last.most.Load())
	b.limit(1, 0)
	last.reach(t, 8)
	close(last.open)
	b.drained()
}

// A limit that a transaction makes holds from its commit on, and one that is rolled back does not.
func TestLimitInATransaction(t *testing.T) {
	b := newBed(t)
	marks := func() int { return query[int](b, "SELECT count(*) FROM pgfifo.pauses WHERE limited") }
	err := b.client.InTx(t.Context(), func(tx pgx.Tx) error {
		require.NoError(t, b.q.InPgx(tx).Configure(t.Context(), fifo.Settings{Limit: 2}))
		return errOnPurpose
	})
	require.ErrorIs(t, err, errOnPurpose)
	require.Zero(t, b.count("slots"))
	require.Zero(t, marks())
	b.limit(0, 2)
	require.Equal(t, 2, b.count("slots"))
	require.Equal(t, 1, marks())
	require.ErrorIs(t, b.q.Reconfigure(t.Context(), fifo.Settings{}, fifo.Settings{}), fifo.ErrConflict)
	require.Equal(t, 1, marks())
	require.NoError(t, b.client.InTx(t.Context(), func(tx pgx.Tx) error {
		return b.q.InPgx(tx).Reconfigure(t.Context(), fifo.Settings{Limit: 2}, fifo.Settings{})
	}))
	require.Zero(t, marks())

	// Of two that change it at once, the second sees what the first has made.
	tx := b.begin()
	require.NoError(t, b.q.InPgx(tx).Reconfigure(t.Context(), fifo.Settings{}, fifo.Settings{Limit: 1}))
	second := beside(func() error {
		return b.q.Reconfigure(context.WithoutCancel(t.Context()), fifo.Settings{Limit: 1}, fifo.Settings{})
	})
	await(t, "the second to wait", func() bool {
		return query[bool](b, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'transactionid')")
	})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, receive(t, second, "the second"))
	require.Zero(t, marks())
}

// A limit is no pause: it is not listed as one, resuming the queue leaves it, and a pause beside it holds.
func TestLimitIsNoPause(t *testing.T) {
	b := newBed(t)
	b.limit(0, 1)
	b.send("a", 1)
	requirePaused := func(want bool) {
		t.Helper()
		require.Equal(t, want, len(b.pauses()) == 1)
		require.Equal(t, want, b.groups(b.q, fifo.Page{})[0].Paused)
		require.Equal(t, !want, b.runsOne(b.worker(failing(99, errOnPurpose), func(w *fifo.Worker) {
			w.MaxAttempts = -1
		})))
	}
	requirePaused(false)
	require.False(t, b.resumes(b.q))
	requirePaused(false)
	require.NoError(t, pausing(b.q.Pause(t.Context(), "for a while")))
	requirePaused(true)
	require.True(t, b.resumes(b.q))
	requirePaused(false)
	require.Equal(t, 1, query[int](b, "SELECT count(*) FROM pgfifo.pauses WHERE limited"))

	// RunOne finds nothing to do while the only slot is in use.
	tx := b.beginWith("SELECT FROM pgfifo.slots FOR UPDATE")
	require.False(t, b.runsOne(b.worker(nop)))
	require.NoError(t, tx.Rollback(t.Context()))
	requirePaused(false)
}

// A busy spell of one group, in which each claim has its slot, does not make a worker forget that there is a limit.
func TestOverLimitAfterABusySpell(t *testing.T) {
	b := newBed(t)
	b.limit(0, 1)
	var now atomic.Pointer[gauge]
	w, first, then := b.gaugedBy(&now), newGauge(), newGauge()
	now.Store(first)
	b.sendMany("q", 3, 1)
	b.run(w)
	first.reach(t, 1)
	misses(t, w, 2) // some find no slot
	close(first.open)
	b.drained()
	b.sendMany("q", 1, 2000)
	b.drained()

	now.Store(then)
	b.sendMany("q", 10, 1)
	then.reach(t, 1)
	from, began := w.Stats().Missed, time.Now()
	misses(t, w, 20)
	missed := w.Stats().Missed - from
	looks := int64(time.Since(began)/(25*time.Millisecond)) + 1
	require.LessOrEqual(t, missed, 8*(looks+1), "a few a look")
	close(then.open)
	b.drained()
}

// A job that waits for a slot says so, and so does one behind it; not while there is a free one. A slot is in use while
// the session lives that has it.
func TestWhyOverLimit(t *testing.T) { overLeases(t, testWhyOverLimit) }

func testWhyOverLimit(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.limit(0, 2)
	b.sendMany("q", 1, 1)
	g := newGauge()
	r := b.run(b.gauged(g, fifo.Queue{}))
	g.reach(t, 1)
	elsewhere := b.client.Queue("r").Group("g")
	b.plant("r", 1, "g")
	status, err := elsewhere.Why(t.Context())
	require.NoError(t, err)
	require.Equal(t, fifo.Due, status.State, "of a queue without a limit")
	require.NoError(t, second(elsewhere.Purge(t.Context())))

	b.sendAll(fifo.Message{Queue: "q", GroupID: "second"})
	g.reach(t, 2)
	ids := b.send("third", nil, nil)
	third := b.why("third")
	require.Equal(t, fifo.OverLimit, third.State)
	require.Regexp(t, "may run since 20.*, and waits: the queue is at its limit", third.Reason())
	behind := b.whyJob(ids[1])
	require.Equal(t, fifo.Behind, behind.State)
	require.Contains(t, behind.Reason(), "the queue is at its limit")
	close(g.open)
	r.finish()
	if by != bySession {
		return
	}
	b.plant("q", 1, "late")
	conn := b.kept("none", 1)
	const slots = "UPDATE pgfifo.slots SET session = (SELECT session FROM pgfifo.queue_groups WHERE group_id = 'none')"
	b.exec(slots + " WHERE n = 1")
	require.Equal(t, fifo.Due, b.why("late").State, "one is free")
	b.exec(slots)
	require.Equal(t, fifo.OverLimit, b.why("late").State)
	b.gone(conn)
	require.Equal(t, fifo.Due, b.why("late").State)
}
