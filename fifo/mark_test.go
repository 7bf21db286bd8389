package fifo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// withoutAPool returns a worker with one lane whose client's pool is all in use until release. The client has looked at
// the schema before: it has sent a message to the queue.
func (b *bed) withoutAPool(queue string) (w *fifo.Worker, pool *pgxpool.Pool, release func()) {
	b.t.Helper()
	w, pool = b.worker(nop, oneLane), b.onePool()
	w.Client = b.open(pool)
	_, err := w.Client.Enqueue(b.t.Context(), fifo.Message{Queue: queue, GroupID: "g"})
	require.NoError(b.t, err)
	conn, err := pool.Acquire(b.t.Context())
	require.NoError(b.t, err)
	return w, pool, conn.Release
}

// Jobs do not wait for the application's pool, all of which is in use, although their attempts would be marked on it.
func TestMarksWithoutAPool(t *testing.T) { overLeases(t, testMarksWithoutAPool) }

func testMarksWithoutAPool(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.send("g", nil)
	w, _, release := b.withoutAPool("q")
	defer release()
	begin := time.Now()
	b.work(w)
	require.Less(t, time.Since(begin), 9*time.Second, "each waits for a second, and not for the server's silence")
}

// Where several jobs of a group may run at once, nothing but its mark tells that an attempt has died: none begins
// without one.
func TestNothingBeginsUnmarkedOfSeveral(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}))
	w, pool, release := b.withoutAPool("other")
	b.send("g", nil)
	b.run(w)
	await(t, "marks that could not be made", func() bool { return pool.Stat().CanceledAcquireCount() > 1 })
	require.Empty(t, b.ledger.order())
	require.NotZero(t, w.Stats().Troubles)
	release()
	await(t, "the end of the job", func() bool { return b.count("jobs") == 1 }) // but for the other queue's
	require.Len(t, b.ledger.order(), 1)
}

// A mark is found by whoever claims the job next, also if that lane has no reason to mark it.
func TestMarkIsFoundByAll(t *testing.T) {
	pgtest.OverAll(t, oneAndBatches(6), func(t *testing.T, batch fifo.Queue) {
		b := newEffects(t)
		b.ledger.overlaps = true
		h := newBlocking()
		b.run(b.each(batch, func(ctx context.Context, job *fifo.Job) error {
			if job.GroupID != "gate" {
				return nil
			}
			return h.handle(ctx, job)
		}, oneLane))
		for range 12 {
			b.send("warm", nil)
			b.drained()
		}
		b.send("gate", nil)
		receive(t, h.started, "the gate")

		id := b.send("g", nil)[0]
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		require.NoError(t, b.worker(func(ctx context.Context, job *fifo.Job) error {
			defer stop()
			pid, err := backend(ctx, job)
			return errors.Join(err, b.kill(context.WithoutCancel(ctx), pid))
		}, oneLane).Run(ctx))
		b.exec("SELECT FROM pgfifo.jobs WHERE group_id = 'g' FOR UPDATE") // now its lock tells nothing
		require.Zero(t, b.jobs()[0].Attempts, "nothing has counted it so far")
		close(h.release)
		b.drained()
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
		last := b.ledger.starts[len(b.ledger.starts)-1]
		require.Equal(t, id, last.ID)
		require.Equal(t, 2, last.Attempt())
		require.Zero(t, b.count("attempt_marks"))
	})
}

// While a mark waits for the pool the connection may be lost: then the handler does not begin beside a successor, and
// no attempt is counted.
func TestConnectionLostWhileMarking(t *testing.T) {
	b := newBed(t)
	w, pool, release := b.withoutAPool("other")
	id := b.sendAll(fifo.Message{Queue: "q", GroupID: "g", MaxAttempts: 1})[0]
	b.run(w)
	require.NoError(t, b.kill(t.Context(), b.holder("g")))
	await(t, "the end of the mark's wait", func() bool { return pool.Stat().CanceledAcquireCount() > 0 })
	release()
	await(t, "the end of the job", func() bool { return b.count("jobs") == 1 }) // but for the other queue's
	require.Equal(t, []int64{id}, b.ledger.order(), "it begins once")
	await(t, "its outcome", func() bool { return len(b.ledger.outcomes()) > 0 })
	require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ledger.outcomes())
}

// A lower id that becomes the head before the job that died is claimed again leaves that one's mark alone.
func TestMarkBesideALowerID(t *testing.T) {
	pgtest.OverAll(t, map[string]int{"first claim": 0, "failed before": 1}, func(t *testing.T, attempts int) {
		b := newEffects(t)
		b.ledger.overlaps, b.ledger.unordered = true, true
		tx := b.begin()
		b.receiptsIn(tx, fifo.Message{Queue: "q", GroupID: "g", Payload: "low"})
		high := b.send("g", "high")[0]
		b.exec("UPDATE pgfifo.jobs SET attempts = $2 WHERE id = $1", high, attempts)
		seen := make(chan int, 10)
		var once sync.Once
		w := b.worker(func(ctx context.Context, job *fifo.Job) (err error) {
			if job.ID != high {
				return nil
			}
			seen <- job.Attempts
			once.Do(func() {
				pid, e := backend(ctx, job)
				err = errors.Join(tx.Commit(context.Background()), e, b.kill(context.WithoutCancel(ctx), pid))
			})
			return err
		}, oneLane, watchful)
		b.work(w)
		first := receive(t, seen, "it began")
		require.Equal(t, first+1, receive(t, seen, "it began again"), "the attempt that died is counted")
	})
}

// Jobs that a dead worker leaves do not wait for each other when they are quick, however many they are.
func TestManyLostAtOnce(t *testing.T) { overLeases(t, testManyLostAtOnce) }

func testManyLostAtOnce(t *testing.T, by lease) {
	const n = 30
	b := by.on(newBed(t))
	b.ledger.overlaps = true
	b.sendMany("q", n, 1)
	h := newBlocking()
	r := b.run(b.worker(h.handle, watchful, by.atOnce(n), func(w *fifo.Worker) {
		w.Name, w.DrainTimeout = "dies", -1
	}))
	for range n {
		receive(t, h.started, "all handlers")
	}
	b.killAll("dies")
	require.NoError(t, r.stop())
	begin, next := time.Now(), b.worker(nop)
	b.work(next)
	require.Greater(t, next.Stats().Lost, int64(n/2))
	require.Less(t, time.Since(begin), 10*time.Second, "each waits for the one before it, and not for its time")
}

// Jobs whose last attempt died begin one after the other, although all of them are due and all lanes are free.
func TestSuspectsBeginOneByOne(t *testing.T) {
	b := newBed(t)
	const jobs = 5
	b.sendMany("q", jobs, 1)
	b.exec(`UPDATE pgfifo.jobs SET attempts = 1, failures = '[{"attempt": 1, "kind": "lost", "error": "died"}]'`)
	var mu sync.Mutex
	running, beside := make(map[int64]time.Time), 0
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		mu.Lock()
		for _, began := range running {
			if time.Since(began) < 400*time.Millisecond { // after half a second another one may begin
				beside++
			}
		}
		running[job.ID] = time.Now()
		mu.Unlock()
		<-time.After(50 * time.Millisecond) // its work, in which another lane could begin
		mu.Lock()
		defer mu.Unlock()
		delete(running, job.ID)
		return nil
	}, func(w *fifo.Worker) { w.Concurrency = jobs }))
	require.Zero(t, beside)
}

// To mark an attempt may take long. A pause that comes meanwhile is heard, and so is the end of Run: nothing begins,
// and nothing is counted.
func TestNothingBeginsBehindASlowMark(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"paused": false, "run ended": true}, func(t *testing.T, stopped bool) {
		b := newBed(t)
		first := b.send("warm", nil)[0]
		r := b.run(b.worker(nop, oneLane))
		b.drained() // its statements are prepared
		lock := b.beginWith("LOCK TABLE pgfifo.attempt_marks IN EXCLUSIVE MODE")
		b.send("g", nil)
		await(t, "the mark to have waited longer than a moment", func() bool {
			return query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '-- Marks attempts%'
				  AND clock_timestamp() - query_start > interval '60 milliseconds')`)
		})
		if stopped {
			r.cancel()
		} else {
			b.pauseHeld()
		}
		require.NoError(t, lock.Rollback(t.Context()))
		if stopped {
			require.NoError(t, r.wait())
		} else {
			b.givenBack()
		}
		require.Equal(t, []int64{first}, b.ledger.order())
		require.Zero(t, b.jobs()[0].Attempts)
		if stopped {
			r = b.run(b.worker(nop, oneLane))
		} else {
			require.True(t, b.resumes(b.q.Group("g")))
		}
		r.finish()
		require.Len(t, b.ledger.order(), 2)
		require.Zero(t, b.count("attempt_marks"))
	})
}

// A mark that cannot be made keeps its job waiting for no longer than the server may be silent.
func TestBeginsWithoutItsMark(t *testing.T) {
	b, h := newBed(t), newBlocking()
	b.send("warm", nil)
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID == "warm" {
			return nil
		}
		return h.handle(ctx, job)
	}, oneLane, func(w *fifo.Worker) {
		w.Silence = 3 * time.Second
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.ConnConfig.RuntimeParams["lock_timeout"] = "0" // whatever the server's is
		}))
	}))
	b.drained() // its statements are prepared
	lock := b.beginWith("LOCK TABLE pgfifo.attempt_marks IN EXCLUSIVE MODE")
	b.send("g", nil)
	receive(t, h.started, "the handler")
	require.NoError(t, lock.Rollback(t.Context()))
	close(h.release)
	b.drained()
}

// A pause is heard also where the mark is not made in the end.
func TestNothingBeginsUnmarkedOfAPausedGroup(t *testing.T) {
	b := newBed(t)
	w, _, release := b.withoutAPool("other")
	defer release()
	b.send("g", nil)
	b.run(w)
	b.holder("g")
	b.pauseHeld()
	b.givenBack()
	require.Empty(t, b.ledger.order())
	require.True(t, b.resumes(b.q.Group("g")))
	await(t, "the end of the job", func() bool { return b.count("jobs") == 1 }) // but for the other queue's
}

// pauseHeld pauses group g, which a claim holds.
func (b *bed) pauseHeld() {
	b.t.Helper()
	_, _, err := b.q.Group("g").Pause(b.t.Context(), "test")
	require.NoError(b.t, err)
}

// givenBack waits until nobody holds group g, which is paused.
func (b *bed) givenBack() {
	b.t.Helper()
	await(b.t, "the group to be given back", func() bool {
		w, err := b.q.Group("g").Why(b.t.Context())
		require.NoError(b.t, err)
		return w.State == fifo.Paused
	})
}
