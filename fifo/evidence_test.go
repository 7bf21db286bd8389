package fifo_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A job that kills the only worker at each start is a dead letter in the end, whatever the server does with the
// evidence that its locks leave.
func TestPoisonAtEachStart(t *testing.T) { overLeases(t, testPoisonAtEachStart) }

func testPoisonAtEachStart(t *testing.T, by lease) {
	pgtest.OverAll(t, oneAndBatches(4), func(t *testing.T, queue fifo.Queue) {
		b := by.on(newEffects(t))
		b.ledger.overlaps, b.ledger.unordered = true, true
		poison := b.send("g", nil)[0]
		for try := 0; try < 5 && b.count("jobs") > 0; try++ { // a worker each
			b.send("other", nil)
			ctx, stop := context.WithCancel(t.Context())
			w := b.each(queue, func(ctx context.Context, job *fifo.Job) error {
				if job.ID != poison {
					return nil
				}
				pid, err := backend(ctx, job)
				if err == nil {
					err = b.kill(context.WithoutCancel(ctx), pid)
				}
				stop() // the worker dies with it
				return err
			}, oneLane)
			ended := beside(func() error { return w.Run(ctx) })
			await(t, "an attempt, or the end", func() bool { return ctx.Err() != nil || b.count("jobs") == 0 })
			stop()
			require.NoError(t, receive(t, ended, "the worker"))
			b.exec("CHECKPOINT")
			b.exec("VACUUM (FREEZE) pgfifo.jobs, pgfifo.queue_groups")
		}
		letter := only(t, b.deadLetters())
		require.Equal(t, poison, letter.ID)
		require.Equal(t, 3, letter.Attempts)
		require.Empty(t, b.effects())
		require.Zero(t, b.count("attempt_marks"))
	})
}

// The session dies in the COMMIT of a batch, which has touched all of its jobs: the head is charged, and nobody else.
func TestBatchThatDiesInItsCommit(t *testing.T) { overLeases(t, testBatchThatDiesInItsCommit) }

func testBatchThatDiesInItsCommit(t *testing.T, by lease) {
	b := by.on(newList(t))
	b.ledger.overlaps, b.ledger.unordered = true, true
	b.exec(`CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER die AFTER INSERT ON list DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		EXECUTE FUNCTION die()`)
	ids := b.send("g", 1, 2, 3, 4, 5)
	b.work(b.each(fifo.Queue{BatchJobs: 5}, func(ctx context.Context, job *fifo.Job) error {
		if job.Attempt() == 2 { // the head, which has died once
			b.exec("DROP TRIGGER die ON list")
		}
		return note(ctx, job)
	}, oneLane))
	require.Equal(t, []int{2, 1, 1, 1, 1}, b.attempts(ids...))
}

// claiming returns how many sessions of a worker have a transaction open, by its name.
func (b *bed) claiming(worker string) (n int) {
	err := b.pool.QueryRow(context.WithoutCancel(b.t.Context()), "SELECT count(*) FROM pg_stat_activity "+
		"WHERE datname = current_database() AND application_name = $1 AND xact_start IS NOT NULL", worker).Scan(&n)
	require.NoError(b.t, err)
	return n
}

// A job whose worker dies with it takes its time, and takes nobody with it twice: of all jobs whose last attempt died a
// worker runs one at a time.
func TestPoisonBesideInnocents(t *testing.T) { overLeases(t, testPoisonBesideInnocents) }

func testPoisonBesideInnocents(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.overlaps, b.ledger.unordered = true, true
	const delay = 1200 * time.Millisecond
	poison := b.send("poison", nil)[0]
	innocents := make(map[int64]bool)
	for g := range 12 {
		innocents[b.send(fmt.Sprint("innocent", g), nil)[0]] = true
	}
	var mu sync.Mutex
	var kills []time.Time
	worst, late := 0, false
	for p := range 5 {
		name := fmt.Sprint("process ", p)
		ctx, die := context.WithCancel(t.Context())
		w := b.worker(func(ctx context.Context, job *fifo.Job) error {
			if innocents[job.ID] {
				mu.Lock()
				worst = max(worst, job.Attempts)
				mu.Unlock()
				select {
				case <-time.After(30 * time.Millisecond): // its work
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			begun := time.Now()
			<-time.After(30 * time.Millisecond)
			if job.Attempts > 0 { // no other one begins beside it; but what is being claimed is charged, too
				until := time.Now().Add(300 * time.Millisecond)
				for b.claiming(name) > 1 && time.Now().Before(until) {
					<-time.After(time.Millisecond)
				}
			}
			mu.Lock()
			kills = append(kills, time.Now())
			// From half a second on others may begin.
			late = late || time.Since(begun) > 400*time.Millisecond
			mu.Unlock()
			b.killAll(name)
			die()
			return errOnPurpose
		}, watchful, by.atOnce(6), func(w *fifo.Worker) {
			w.MaxAttempts, w.Name, w.DrainTimeout = 4, name, -1
			w.Retry = waiting(delay)
		})
		ended := beside(func() error { return w.Run(ctx) })
		t.Cleanup(func() {
			die()
			_ = receive(t, ended, "the end of Run")
		})
	}
	await(t, "the dead letter", func() bool { return b.count("dead_letters") == 1 })
	b.drained()
	require.Equal(t, poison, b.deadLetters()[0].ID)
	most := 1 // one that was lost once is a suspect
	if by == bySession {
		most = 2 // lost twice
	}
	if late {
		t.Log("the machine is too slow to tell who is charged again")
	} else {
		require.LessOrEqual(t, worst, most, "no innocent is charged again")
	}
	require.Len(t, kills, 4)
	for i := range kills[1:] {
		require.GreaterOrEqual(t, kills[i+1].Sub(kills[i]), time.Second)
	}
}

// A job that is claimed beside a hook, in a session that ends there, has not begun: no attempt of it is counted. One
// that died before is.
func TestClaimLostBesideAHook(t *testing.T) {
	pgtest.OverAll(t, map[string]int{"fresh": 0, "died before": 1}, func(t *testing.T, died int) {
		var b *bed
		once := false
		b = newBed(t, hooked(fifo.Hooks{Settled: func(ctx context.Context, job *fifo.Job, o fifo.Outcome, _ error) {
			if o != fifo.Succeeded || once {
				return
			}
			once = true
			other := b.q.Group(map[string]string{"f": "g", "g": "f"}[job.GroupID])
			for _, held := range b.groups(other, fifo.Page{}, fifo.Held) { // or it is given back by now
				if err := b.kill(ctx, held.PID); err != nil {
					t.Error(err)
				}
			}
			beats := time.Now().Add(300 * time.Millisecond) // of which one finds the session ended
			await(t, "heartbeats", func() bool { return time.Now().After(beats) })
		}}))
		for _, group := range []string{"f", "g"} {
			id := b.send(group, nil)[0]
			b.exec("INSERT INTO pgfifo.attempt_marks SELECT 'q', $1, $2, 1 WHERE $3 > 0", group, id, died)
		}
		b.work(b.worker(nop, oneLane, watchful))
		require.Equal(t, []int{died, died}, b.counted())
	})
}

// What is claimed while the hooks of the job before run is given back if they take long: others work it meanwhile, and
// no pause is passed by.
func TestHooksKeepNoClaim(t *testing.T) { overLeases(t, testHooksKeepNoClaim) }

func testHooksKeepNoClaim(t *testing.T, by lease) {
	reached, free, began := make(chan struct{}), make(chan struct{}), make(chan int64, 10)
	var first atomic.Bool
	b := by.on(newBed(t, hooked(fifo.Hooks{Settled: func(context.Context, *fifo.Job, fifo.Outcome, error) {
		if first.CompareAndSwap(false, true) {
			close(reached)
			<-free
		}
	}})))
	defer close(free)
	ids := b.send("g", nil, nil, nil)
	work := func() *run {
		return b.run(b.worker(func(_ context.Context, job *fifo.Job) error {
			began <- job.ID
			return nil
		}, oneLane))
	}
	work()
	receive(t, reached, "the hook")
	require.Equal(t, ids[0], receive(t, began, "the first job"))
	second := work()
	require.Equal(t, ids[1], receive(t, began, "the second job, by another worker"))
	b.drained()
	require.NoError(t, second.stop())
}

// A hook that ends its goroutine, at once or when the next claim has been given back, costs no job an attempt. The
// worker goes on, and RunOne returns.
func TestHookThatExits(t *testing.T) { overLeases(t, testHookThatExits) }

func testHookThatExits(t *testing.T, by lease) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			var b *bed
			b = by.on(newBed(t, hooked(fifo.Hooks{Settled: func(context.Context, *fifo.Job, fifo.Outcome, error) {
				if late {
					await(t, "the claim to be given back", func() bool {
						return len(b.groups(b.q.Group("g"), fifo.Page{}, fifo.Held)) == 0
					})
				}
				runtime.Goexit()
			}})))
			ids := b.send("g", nil, nil, nil, nil)
			handler := func(_ context.Context, job *fifo.Job) error {
				require.Zero(t, job.Attempts)
				return nil
			}
			ran, err := b.worker(handler).RunOne(t.Context())
			require.True(t, ran)
			require.NoError(t, err)
			w := b.worker(handler, oneLane)
			b.work(w)
			require.EqualValues(t, 3, w.Stats().Succeeded)
			require.Equal(t, ids, b.ledger.order())
		})
	}
}

// If the session ends when its claim has been given back, the group goes on all the same.
func TestSessionLostBehindAHook(t *testing.T) {
	var b *bed
	var pid atomic.Int64
	b = newBed(t, hooked(fifo.Hooks{Settled: func(context.Context, *fifo.Job, fifo.Outcome, error) {
		lane := pid.Swap(0)
		if lane == 0 {
			return
		}
		await(t, "the claim to be given back", func() bool {
			return query[bool](b, "SELECT state = 'idle' FROM pg_stat_activity WHERE pid = $1", lane)
		})
		b.exec("SELECT pg_terminate_backend($1, 5000)", lane)
	}}))
	ids := b.send("g", nil, nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.ID != ids[0] {
			return nil
		}
		tx, err := job.PgxTx(ctx)
		if err == nil {
			pid.Store(int64(tx.Conn().PgConn().PID()))
		}
		return err
	}, oneLane, watchful))
	require.Equal(t, ids, b.ledger.order())
}

// A job that is redriven when its group was given back goes before what is claimed again.
func TestRedriveBehindAHook(t *testing.T) {
	var b *bed
	var ids []int64
	b = newBed(t, hooked(fifo.Hooks{Settled: func(ctx context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
		if job.ID != ids[len(ids)-3] {
			return
		}
		await(t, "the claim to be given back", func() bool {
			return len(b.groups(b.q.Group("g"), fifo.Page{}, fifo.Held)) == 0
		})
		list, _, err := b.q.Redrive(ctx, fifo.Redrive{Letters: fifo.Letters{IDs: ids[:1]}})
		require.NoError(t, err)
		require.Len(t, list, 1)
	}}), func(c *fifo.Config) { c.PollOnly = true }) // a notice would tell of it
	b.ledger.unordered = true // a job comes back
	ids = b.send("g", make([]any, 3*tuning.Many)...)
	first := true
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		if job.ID == ids[0] && first {
			first = false
			return fifo.DeadLetter(errOnPurpose)
		}
		return nil
	}, oneLane, func(w *fifo.Worker) { w.PollInterval = time.Minute })) // so would a poll
	n := len(ids) - 2
	require.Equal(t, slices.Concat(ids[:n], ids[:1], ids[n:]), b.ledger.order())
}

// A batch that was given back for a slow hook comes again as a whole, also if another worker has it then.
func TestBatchBehindAHook(t *testing.T) { overLeases(t, testBatchBehindAHook) }

func testBatchBehindAHook(t *testing.T, by lease) {
	pgtest.OverAll(t, map[string]bool{"the same worker": false, "another": true}, func(t *testing.T, other bool) {
		reached, free := make(chan struct{}), make(chan struct{})
		var first atomic.Bool
		b := by.on(newList(t, hooked(fifo.Hooks{Settled: func(context.Context, *fifo.Job, fifo.Outcome, error) {
			if first.CompareAndSwap(false, true) {
				close(reached)
				<-free
			}
		}})))
		release := sync.OnceFunc(func() { close(free) })
		defer release()
		ids := b.send("g", make([]any, 8)...)
		batch := func() *fifo.Worker { return b.slice(fifo.Queue{BatchJobs: 4}, noteAll, oneLane) }
		b.run(batch())
		receive(t, reached, "the hook")
		await(t, "the claim to be given back", func() bool {
			return len(b.groups(b.q.Group("g"), fifo.Page{}, fifo.Held)) == 0
		})
		if other {
			b.run(batch())
		} else {
			release()
		}
		b.drained()
		require.Equal(t, [][]int64{ids[:4], ids[4:]}, b.batches())
	})
}

// Attempts that were found lost are counted, each by itself, also if the server refuses that of one of them; that one
// is counted when the server lets it.
func TestLostBesideARefusal(t *testing.T) { overLeases(t, testLostBesideARefusal) }

func testLostBesideARefusal(t *testing.T, by lease) {
	b := by.on(newBed(t))
	for _, group := range []string{"x", "y"} {
		b.exec("INSERT INTO pgfifo.attempt_marks VALUES ('q', $1, $2, 1)", group, b.send(group, nil)[0])
	}
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not x'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON pgfifo.jobs FOR EACH ROW
		WHEN (OLD.group_id = 'x') EXECUTE FUNCTION refuse()`)
	w := b.each(fifo.Queue{BatchGroups: 4}, nop, oneLane)
	r := b.run(w)
	await(t, "the refusal, and the other job", func() bool {
		return w.Stats().Troubles > 0 && b.count("jobs") == 1
	})
	b.exec("DROP TRIGGER refuse ON pgfifo.jobs")
	r.finish()
	require.Equal(t, []int{1, 1}, b.counted())
}
