package fifo_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// groupLimit changes how many jobs of a group of queue q may run at once.
func (b *bed) groupLimit(from, to int) {
	b.t.Helper()
	require.NoError(b.t, b.q.Reconfigure(b.t.Context(), fifo.Settings{GroupLimit: from}, fifo.Settings{GroupLimit: to}))
}

// Two workers run as many jobs of each group at once as the limit says, no more, and they start in order.
func TestGroupLimit(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 3}))
	r, s := newRoster(t), newStop()
	b.run(b.crowd(r, fifo.Queue{}, s.handle))
	b.run(b.crowd(r, fifo.Queue{}, s.handle))
	ids := map[string][]int64{"a": b.enqueue("a", 7), ownAlike: b.enqueue(ownAlike, 7)}
	r.reach(t, "a", ids["a"][:3]...)
	r.reach(t, ownAlike, ids[ownAlike][:3]...)
	s.of(ids["a"][1]) <- nil // the one in the middle: the fourth starts
	r.reach(t, "a", ids["a"][0], ids["a"][2], ids["a"][3])
	close(s.all)
	b.drained()
	require.Equal(t, 3, r.most)
	for group, ids := range ids {
		require.Equal(t, ids, r.starts(group))
	}
	require.Zero(t, b.count("attempt_marks"))
}

// enqueue enqueues n jobs to a group of q, one after the other. The ledger, which wants jobs in order, does not hear of
// them.
func (b *bed) enqueue(group string, n int) (ids []int64) {
	b.t.Helper()
	for range n {
		ids = append(ids, b.receipts(fifo.Message{Queue: "q", GroupID: group})[0].ID)
	}
	return ids
}

// elsewhere waits until workers of q have had turns of other groups: what could start has started.
func (b *bed) elsewhere(r *roster, s *stop) {
	b.t.Helper()
	for range 5 {
		id := b.enqueue("elsewhere", 1)[0]
		r.reach(b.t, "elsewhere", id)
		s.of(id) <- nil
		r.reach(b.t, "elsewhere")
	}
}

// A job that fails goes back to its place. While it backs off nothing behind it starts, and what runs goes on; then it
// is the first to start. So it is with one that is snoozed, and one that an operator has locked.
func TestGroupLimitHeadHolds(t *testing.T) {
	pgtest.OverAll(t, map[string]error{
		"fails": fifo.RetryAfter(time.Hour, errOnPurpose), "snoozes": fifo.Snooze(time.Hour, errOnPurpose),
	}, func(t *testing.T, why error) {
		b := newBed(t)
		b.groupLimit(1, 2)
		r, s := newRoster(t), newStop()
		ids := b.enqueue("a", 5)
		b.run(b.crowd(r, fifo.Queue{}, s.handle))
		r.reach(t, "a", ids[0], ids[1])
		s.of(ids[0]) <- why
		r.reach(t, "a", ids[1])
		b.elsewhere(r, s)
		require.Equal(t, []int64{ids[1]}, r.runs("a"))
		s.of(ids[1]) <- nil
		r.reach(t, "a")
		b.elsewhere(r, s)
		require.Empty(t, r.runs("a"))
		require.NoError(t, b.q.RetryNow(t.Context(), ids[0]))
		r.reach(t, "a", ids[0], ids[2])
		close(s.all)
		b.drained()
		require.Equal(t, slices.Concat(ids[:2], ids[:1], ids[2:]), r.starts("a"))
	})
	t.Run("locked", func(t *testing.T) {
		b := newBed(t)
		b.groupLimit(1, 3)
		r, s := newRoster(t), newStop()
		ids := b.enqueue("a", 3)
		tx := b.beginWith("SELECT FROM pgfifo.jobs WHERE id = $1 FOR UPDATE", ids[1])
		w := b.crowd(r, fifo.Queue{}, s.handle)
		b.run(w)
		r.reach(t, "a", ids[0])
		misses(t, w, 12)
		require.Equal(t, ids[:1], r.runs("a"))
		require.NoError(t, tx.Rollback(t.Context()))
		r.reach(t, "a", ids...)
		close(s.all)
		b.drained()
		require.Equal(t, ids, r.starts("a"))
	})
}

// Under load, with failures, snoozes, delays and lower ids that are committed late, two workers with batches never run
// more of a group than its limit, each job is done once, and each starts after those before it.
func TestGroupLimitUnderLoad(t *testing.T) {
	const limit, groups, each = 3, 4, 60
	b := newBed(t)
	b.groupLimit(1, limit)
	r := newRoster(t)
	for _, batch := range []fifo.Queue{{BatchJobs: 5}, {BatchGroups: 3}} {
		w := b.crowd(r, batch, func(ctx context.Context, _ *fifo.Job) error {
			if _, err := b.pool.Exec(ctx, "SELECT pg_sleep(0.005)"); err != nil {
				return err
			}
			switch rand.IntN(12) {
			case 0:
				return errOnPurpose
			case 1:
				return fifo.RetryAfter(5*time.Millisecond, errOnPurpose)
			case 2:
				return fifo.Snooze(time.Millisecond, errOnPurpose)
			}
			return nil
		}, func(w *fifo.Worker) { w.MaxAttempts = -1 })
		b.run(w)
	}
	ids, late := make(map[string][]int64), make(map[int64]bool)
	for n := range each {
		err := b.client.InTx(t.Context(), func(tx pgx.Tx) error {
			for g := range groups {
				msg := fifo.Message{Queue: "q", GroupID: fmt.Sprint("g", g)}
				if n%10 == 3 {
					msg.Delay = 10 * time.Millisecond
				}
				receipts, err := b.client.EnqueuePgxTx(t.Context(), tx, msg)
				if err != nil {
					return err
				}
				ids[msg.GroupID] = append(ids[msg.GroupID], receipts[0].ID)
				if n%15 == 7 { // what is enqueued now is behind it, and there before
					late[receipts[0].ID] = true
					ids[msg.GroupID] = append(ids[msg.GroupID], b.enqueue(msg.GroupID, 1)...)
				}
			}
			return nil
		})
		require.NoError(t, err)
	}
	b.drained()
	require.LessOrEqual(t, r.most, limit)
	require.Greater(t, r.most, 1)
	for group, ids := range ids {
		var first []int64
		for _, id := range r.starts(group) {
			if !slices.Contains(first, id) {
				first = append(first, id)
			}
		}
		require.ElementsMatch(t, ids, first)
		first = slices.DeleteFunc(first, func(id int64) bool { return late[id] })
		require.True(t, slices.IsSorted(first), "%v", first)
		for _, id := range ids {
			require.Equal(t, 1, r.done[id])
		}
	}
	require.Zero(t, b.count("attempt_marks"))
	require.Zero(t, b.count("dead_letters"))
}

// Workers whose sessions are killed with the jobs of a group: each of these is charged once, and they are the first to
// start again, in order.
func TestGroupLimitLost(t *testing.T) {
	b := newBed(t)
	b.groupLimit(1, 3)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 5)
	attempts := make(map[int64]int)
	h := func(ctx context.Context, job *fifo.Job) error {
		r.mu.Lock()
		attempts[job.ID] = job.Attempt()
		r.mu.Unlock()
		return s.handle(ctx, job)
	}
	b.run(b.crowd(r, fifo.Queue{}, h, watchful))
	b.run(b.crowd(r, fifo.Queue{}, h, watchful))
	r.reach(t, "a", ids[:3]...)
	a := b.q.Group("a") // paused until all three have died: else the last may start while the first still run
	require.NoError(t, pausing(a.Pause(t.Context(), "")))
	b.exec("SELECT pg_terminate_backend(a.pid, 10000) FROM pg_stat_activity a, pgfifo.attempt_marks m " +
		"WHERE a.backend_xid = m.xid::xid")
	b.resumes(a)
	await(t, "two starts of each", func() bool { return len(r.starts("a")) == 6 })
	r.reach(t, "a", ids[:3]...)
	close(s.all)
	b.drained()
	require.Equal(t, slices.Concat(ids[:3], ids), r.starts("a"))
	require.Equal(t, map[int64]int{ids[0]: 2, ids[1]: 2, ids[2]: 2, ids[3]: 1, ids[4]: 1}, attempts)
	require.Zero(t, b.count("attempt_marks"))
}

// An attempt that is lost leaves room for the next one, which nobody waits for a poll to find.
func TestGroupLimitLostBesideItsTeam(t *testing.T) {
	b := newBed(t)
	b.ledger.unordered, b.ledger.overlaps = true, true
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}))
	beside, again := make(chan struct{}), make(chan struct{})
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		switch {
		case string(job.Payload) == "beside":
			close(beside)
			<-again
			return nil
		case job.Attempts > 0:
			close(again)
			return nil
		}
		<-beside
		return exec(ctx, job, "SELECT pg_terminate_backend(pg_backend_pid())")
	}, func(w *fifo.Worker) { w.PollInterval = time.Hour }))
	b.send("g", "lost", "beside")
	receive(t, again, "the second attempt")
	b.drained()
}

// A database that was restored from another server's dump has marks of that server's transactions, of which this one
// has never heard. Their attempts have died.
func TestGroupLimitAfterARestore(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}))
	ids := append(b.send("a", nil), b.send("a", nil)...)
	b.exec("INSERT INTO pgfifo.attempt_marks SELECT 'q', 'a', $1, 1, '1152921504606847976'", ids[0])
	b.work(b.worker(nop, oneLane))
	outcomes, errs, order := b.ledger.of("a")
	require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded, fifo.Succeeded}, outcomes)
	require.ErrorIs(t, errs[0], fifo.ErrLost)
	require.Equal(t, ids, order)
	require.Zero(t, b.count("attempt_marks"))
}

// A worker beside one that has filled a group tries it now and then, and takes what there is room for when that has
// stopped.
func TestFullGroupDoesNotSpin(t *testing.T) {
	const poll = 100 * time.Millisecond
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, free bool) {
		b := newBed(t)
		b.groupLimit(1, 2)
		r, s := newRoster(t), newStop()
		q, ids := b.q, b.enqueue("a", 10)
		running, next := ids[:2], ids[2:4]
		if free {
			running, next = ids[1:3], []int64{ids[0], ids[3]}
			require.NoError(t, q.Bury(t.Context(), ids[0], "later"))
		}
		runs := b.crowd(r, fifo.Queue{}, s.handle)
		first := b.run(runs)
		r.reach(t, "a", running...)
		if free {
			b.redrive(q, fifo.Redrive{Letters: fifo.Letters{All: true}})
			why := b.why("a")
			require.Equal(t, fifo.OverLimit, why.State)
			require.Contains(t, why.Reason(), "the group is at its limit")
		}
		second := b.crowd(r, fifo.Queue{}, s.handle)
		b.run(second)
		misses(t, second, 3)
		from, own, began := second.Stats().Missed, runs.Stats().Missed, time.Now()
		misses(t, second, 10)
		missed, tries := second.Stats().Missed-from, int64(time.Since(began)/poll)+1
		require.LessOrEqual(t, missed, 2*(tries+1), "one or two each PollInterval")
		require.Equal(t, own, runs.Stats().Missed, "its own lanes fill the group")
		first.cancel()
		s.of(running[0]) <- nil
		s.of(running[1]) <- nil
		require.NoError(t, first.wait())
		r.reach(t, "a", next...)
		close(s.all)
		b.drained()
	})
}
