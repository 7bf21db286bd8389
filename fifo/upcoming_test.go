package fifo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// What is next for a seat goes on elsewhere while the end of its last job waits: for a lock that a trigger of the
// user's takes, or for a hook.
func TestNextGroupWaitsForNobody(t *testing.T) {
	type row struct {
		batch fifo.Queue
		hook  bool
	}
	pgtest.OverAll(t, map[string]row{
		"lock": {}, "lock, company": {batch: fifo.Queue{BatchGroups: 5}},
		"hook": {hook: true}, "hook, company": {hook: true, batch: fifo.Queue{BatchGroups: 5}},
	}, func(t *testing.T, x row) {
		overLeases(t, func(t *testing.T, by lease) { testNextGroupWaitsForNobody(t, by, x.batch, x.hook) })
	})
}

func testNextGroupWaitsForNobody(t *testing.T, by lease, batch fifo.Queue, hook bool) {
	reached, free := make(chan struct{}), make(chan struct{})
	b := by.on(newBed(t, hooked(fifo.Hooks{Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
		if hook && job.GroupID == "1 stuck" {
			close(reached)
			<-free
		}
	}})))
	b.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
			'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN OLD; END';
		CREATE TRIGGER wait BEFORE DELETE ON pgfifo.jobs FOR EACH ROW WHEN (OLD.group_id = '1 stuck')
			EXECUTE FUNCTION wait()`)
	lock := b.beginWith("SELECT pg_advisory_xact_lock(1) WHERE $1", !hook)
	h := newBlocking()
	b.send("1 stuck", nil)
	for i := range 4 { // its company, if it has any
		b.send(fmt.Sprint("2 quick", i), nil)
	}
	b.send("3 busy", nil)
	for i := range 25 { // in line when both seats are busy
		b.send(fmt.Sprint("4 next", i), nil)
	}
	b.run(b.each(batch, func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID == "1 stuck" || job.GroupID == "3 busy" {
			return h.handle(ctx, job)
		}
		return nil
	}, by.atOnce(2)))
	receive(t, h.started, "one handler")
	if batch.BatchGroups == 0 { // else both may be of one batch
		receive(t, h.started, "the other one")
	}
	close(h.release)
	if hook {
		receive(t, reached, "the hook")
	}
	await(t, "all but its own batch", func() bool { return b.count("jobs") <= max(batch.BatchGroups, 1) })
	require.NoError(t, lock.Rollback(t.Context()))
	close(free)
	b.drained()
}

// A suspect whose claim waits for a slow hook is given back, and keeps no other waiting.
func TestSuspectBehindAHook(t *testing.T) { overLeases(t, testSuspectBehindAHook) }

func testSuspectBehindAHook(t *testing.T, by lease) {
	reached, free := make(chan struct{}), make(chan struct{})
	defer close(free)
	b := by.on(newBed(t, hooked(fifo.Hooks{Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
		if job.GroupID == "a" {
			close(reached)
			<-free
		}
	}})))
	h := newBlocking()
	b.send("a", nil)
	b.send("b", nil)
	for n := range 5 {
		b.send(fmt.Sprint("suspect", n), nil)
	}
	b.exec(`UPDATE pgfifo.jobs SET attempts = 2, failures = '[{"kind": "lost"}, {"kind": "lost"}]'
		WHERE group_id LIKE 'suspect%'`)
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID == "b" {
			return h.handle(ctx, job)
		}
		return nil
	}, by.atOnce(2)))
	receive(t, h.started, "the other seat's handler")
	receive(t, reached, "the hook")
	close(h.release)
	b.drained()
}

// The time in which jobs are settled and told of is that of their queue, or share, as is that of their handlers.
func TestSettlingIsTheQueuesTime(t *testing.T) {
	pgtest.OverEach(t, []string{"settled", "told"}, func(t *testing.T, long string) {
		for _, name := range []string{"queues", "shares"} {
			t.Run(name, func(t *testing.T) { testSettlingIsTheQueuesTime(t, long, name == "shares") })
		}
	})
}

func testSettlingIsTheQueuesTime(t *testing.T, long string, shares bool) {
	const n, most = 12, 40 * time.Millisecond
	done := make(chan struct{})
	var slow, quick atomic.Int64
	b := newBed(t, hooked(fifo.Hooks{Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
		switch {
		case !strings.HasPrefix(job.GroupID, "slow"):
			quick.Add(1)
			return
		case long == "told":
			<-time.After(most)
		}
		if slow.Add(1) == n {
			close(done)
		}
	}}))
	if long == "settled" {
		b.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
				'BEGIN PERFORM pg_sleep(0.04); RETURN OLD; END';
			CREATE TRIGGER wait BEFORE DELETE ON pgfifo.jobs FOR EACH ROW WHEN (OLD.group_id LIKE 'slow%')
				EXECUTE FUNCTION wait()`)
	}
	queues := []string{"slow", "quick"}
	if shares {
		queues = []string{"q", "q"}
	}
	for i, group := range []string{"slow", "quick"} {
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
			SELECT $1, $2 || i % 20, '' FROM generate_series(1, 2000) i`, queues[i], group)
	}
	b.ledger.unordered = true
	w := b.bare([]func(*fifo.Worker){oneLane, func(w *fifo.Worker) { w.DrainTimeout = -1 }})
	share := func(group string) string { return strings.TrimRight(group, "0123456789") }
	for _, name := range slices.Compact(queues) {
		w.HandleQueue(name, fifo.Queue{Handler: nop, Share: share})
	}
	r := b.run(w)
	receive(t, done, "the slow ones")
	require.NoError(t, r.stop())
	require.Greater(t, quick.Load(), 2*slow.Load(), "their parts of the time are equal")
}

// What is put back is where it was in line: every group has its turns, however slow the hooks are.
func TestPutBackKeepsItsPlace(t *testing.T) {
	for _, queues := range []int{1, 3} {
		t.Run(fmt.Sprint(queues), func(t *testing.T) {
			b := newSlowlyTold(t)
			w := b.bare([]func(*fifo.Worker){oneLane})
			for i := range 3 {
				queue := fmt.Sprint("q", i%queues)
				if i < queues {
					w.HandleQueue(queue, fifo.Queue{Handler: b.ledger.record(nop)})
				}
				for range 6 {
					b.sendAll(fifo.Message{Queue: queue, GroupID: fmt.Sprint("g", i)})
				}
			}
			b.work(w)
			order := read(b.ledger, &b.ledger.starts, func(job *fifo.Job) string { return job.GroupID })
			turns := make(map[string]int)
			for _, group := range order[:9] {
				turns[group]++
			}
			for i := range 3 {
				require.Greater(t, turns[fmt.Sprint("g", i)], 1, "%v", order)
			}
		})
	}
}

// newSlowlyTold returns a bed whose Settled hook takes longer than a claim is held beside it, also if there is none.
func newSlowlyTold(t *testing.T) *bed {
	t.Helper()
	return newBed(t, hooked(fifo.Hooks{Settled: func(context.Context, *fifo.Job, fifo.Outcome, error) {
		<-time.After(tuning.Look * 3 / 2)
	}}))
}

// A batch that cannot be committed runs one by one, also if it is the same group's turn again behind a slow hook.
func TestRefusedBatchBehindAHook(t *testing.T) {
	pgtest.OverAll(t, batches(10), func(t *testing.T, queue fifo.Queue) {
		overLeases(t, func(t *testing.T, by lease) { testRefusedBatchBehindAHook(t, by, queue) })
	})
}

func testRefusedBatchBehindAHook(t *testing.T, by lease, queue fifo.Queue) {
	b := by.on(newSlowlyTold(t))
	b.ledger.unordered = true
	b.exec("CREATE TABLE once (n int, UNIQUE (n) DEFERRABLE INITIALLY DEFERRED)")
	for i := range 15 {
		b.send(fmt.Sprint("g", i%max(queue.BatchGroups/2, 1)), fmt.Sprint(i))
	}
	w := b.each(queue, func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "2" {
			return exec(ctx, job, "INSERT INTO once VALUES (1), (1)")
		}
		return nil
	})
	b.work(w)
	require.EqualValues(t, 14, w.Stats().Succeeded)
	require.EqualValues(t, 1, w.Stats().Buried)
}

// Where several jobs of a group run, one whose end waits is not in the way of those behind it when it has ended.
func TestSlowEndInATeam(t *testing.T) {
	b := newBed(t)
	b.ledger.overlaps, b.ledger.unordered = true, true
	b.groupLimit(0, 2)
	b.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_sleep(1.3); RETURN OLD; END';
		CREATE TRIGGER wait BEFORE DELETE ON pgfifo.jobs FOR EACH ROW WHEN (OLD.payload = 'slow')
			EXECUTE FUNCTION wait()`)
	h := newBlocking()
	b.send("g", "long", "slow", "", "", "slow", "")
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "long" {
			return h.handle(ctx, job)
		}
		return nil
	}, rarePolls, func(w *fifo.Worker) { w.Concurrency = 3 }))
	await(t, "the others", func() bool { return b.count("jobs") == 1 })
	close(h.release)
	b.drained()
}

// A job whose session is gone is begun elsewhere while a hook is told of the loss, whatever the lease.
func TestLostJobGoesOnBehindAHook(t *testing.T) { overLeases(t, testLostJobGoesOnBehindAHook) }

func testLostJobGoesOnBehindAHook(t *testing.T, by lease) {
	reached, free, began := make(chan struct{}), make(chan struct{}), make(chan int, 2)
	b := by.on(newEffects(t, hooked(fifo.Hooks{Settled: func(_ context.Context, _ *fifo.Job, o fifo.Outcome, _ error) {
		if o == fifo.Unknown {
			close(reached)
			<-free
		}
	}})))
	defer close(free)
	b.ledger.overlaps = true
	b.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN OLD; END';
		CREATE TRIGGER wait BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION wait()`)
	lock := b.beginWith("SELECT pg_advisory_xact_lock(1) WHERE $1", true)
	b.send("g", nil)
	var pid atomic.Int64
	work := func() {
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			began <- 1
			n, err := backend(ctx, job)
			pid.CompareAndSwap(0, int64(n))
			return err
		}, by.atOnce(2), watchful))
	}
	work()
	receive(t, began, "the handler")
	await(t, "its end to wait", func() bool {
		return query[bool](b, "SELECT EXISTS (SELECT FROM pg_locks WHERE objid = 1 AND NOT granted AND pid = $1)",
			pid.Load())
	})
	b.exec("SELECT pg_terminate_backend($1, 5000)", pid.Load())
	receive(t, reached, "the hook")
	require.NoError(t, lock.Rollback(t.Context()))
	work()
	receive(t, began, "the handler, in another worker")
	b.drained()
}

// A claim that waits behind a slow settlement overtakes nothing that is put back meanwhile.
func TestRedriveBehindASlowSettlement(t *testing.T) { overLeases(t, testRedriveBehindASlowSettlement) }

func testRedriveBehindASlowSettlement(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.unordered = true // a job comes back
	b.exec(`CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN OLD; END';
		CREATE TRIGGER wait BEFORE DELETE ON pgfifo.jobs FOR EACH ROW WHEN (OLD.payload = 'slow')
			EXECUTE FUNCTION wait()`)
	ids := b.send("g", append(slices.Repeat([]any{""}, 3*tuning.Many), "slow", "", "")...)
	lock := b.beginWith("SELECT pg_advisory_xact_lock(1) WHERE $1", true)
	first, heard := true, make(chan struct{})
	w := b.worker(func(_ context.Context, job *fifo.Job) error {
		switch {
		case job.GroupID == "heard":
			close(heard)
		case job.ID == ids[0] && first:
			first = false
			return fifo.DeadLetter(errOnPurpose)
		}
		return nil
	}, by.atOnce(2), func(w *fifo.Worker) { w.PollInterval = 200 * 365 * 24 * time.Hour })
	b.run(w)
	await(t, "an end to wait", func() bool {
		return query[bool](b, `SELECT EXISTS (
			SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objid = 1 AND NOT l.granted)`)
	})
	e := b.listen()
	list, _, err := b.q.Redrive(t.Context(), fifo.Redrive{Letters: fifo.Letters{IDs: ids[:1]}})
	require.NoError(t, err)
	require.Len(t, list, 1)
	e.next()             // that is told by itself,
	b.send("heard", nil) // and the worker hears of this behind it
	receive(t, heard, "what came later")
	require.NoError(t, lock.Rollback(t.Context()))
	b.drained()
	n := len(ids) - 2
	order := slices.DeleteFunc(b.ledger.order(), func(id int64) bool { return id > ids[len(ids)-1] })
	require.Equal(t, slices.Concat(ids[:n], ids[:1], ids[n:]), order)
}
