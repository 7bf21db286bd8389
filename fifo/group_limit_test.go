package fifo_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// groupLimit changes how many jobs of a group of queue q may run at once.
func (b *bed) groupLimit(from, to int) {
	b.t.Helper()
	require.NoError(b.t, b.client.Queue("q").Reconfigure(b.t.Context(), fifo.Settings{GroupLimit: from},
		fifo.Settings{GroupLimit: to}))
}

// A roster knows which jobs of each group run, and which have started, as often as they did.
type roster struct {
	mu      sync.Mutex
	running map[string][]int64
	begun   map[string][]start
	most    int
	done    map[int64]int
	alone   int // attempts that nobody could see
}

// A start is that of one attempt. Its mark is made before anybody can claim what is behind, so the transactions of
// marks are in the order of starts, whenever the handlers come to tell.
type start struct{ mark, id int64 }

func newRoster(t *testing.T) *roster {
	r := &roster{running: make(map[string][]int64), begun: make(map[string][]start), done: make(map[int64]int)}
	t.Cleanup(func() { require.Zero(t, r.alone, "started without a mark") })
	return r
}

func (r *roster) handle(b *bed, ctx context.Context, job *fifo.Job, h fifo.HandlerFunc) error {
	s, group := start{id: job.ID}, job.GroupID
	err := b.pool.QueryRow(ctx, "SELECT xmin::text::bigint FROM pgfifo.attempt_marks WHERE id = $1", s.id).Scan(&s.mark)
	r.mu.Lock()
	if err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			r.alone++
		}
		r.mu.Unlock()
		return err
	}
	r.begun[group] = append(r.begun[group], s)
	r.running[group] = append(r.running[group], s.id)
	r.most = max(r.most, len(r.running[group]))
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.Index(r.running[group], s.id) // one that was lost may end beside the next attempt
		r.running[group] = slices.Delete(r.running[group], i, i+1)
		if err == nil {
			r.done[s.id]++
		}
	}()
	err = h(ctx, job)
	return err
}

// runs returns the jobs of the group that run, in the order of their ids.
func (r *roster) runs(group string) []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.running[group]))
}

// reach waits until these jobs of a group run, and no other.
func (r *roster) reach(t *testing.T, group string, ids ...int64) {
	t.Helper()
	await(t, fmt.Sprint(ids, " of ", group), func() bool { return slices.Equal(r.runs(group), ids) })
}

// starts returns the jobs of the group in the order in which they started, as often as they did.
func (r *roster) starts(group string) (ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range slices.SortedFunc(slices.Values(r.begun[group]), func(x, y start) int {
		return cmp.Compare(x.mark, y.mark)
	}) {
		ids = append(ids, s.id)
	}
	return ids
}

// crowd returns a worker of eight lanes that works q. Its handlers are in the roster, and not in the ledger, which
// wants one job of a group at a time.
func (b *bed) crowd(r *roster, batch fifo.Batch, h fifo.HandlerFunc, adjust ...func(*fifo.Worker)) *fifo.Worker {
	w := &fifo.Worker{
		Client: b.client, Concurrency: 8, PollInterval: 100 * time.Millisecond,
		Retry: func(*fifo.Job, error) time.Duration { return 0 },
	}
	for _, f := range adjust {
		f(w)
	}
	handler := fifo.HandlerFunc(func(ctx context.Context, job *fifo.Job) error { return r.handle(b, ctx, job, h) })
	w.HandleQueue("q", fifo.Queue{Batch: batch, Handler: handler})
	return w
}

// A stop keeps handlers until each of their jobs is let go.
type stop struct {
	mu  sync.Mutex
	ch  map[int64]chan error
	all chan struct{}
}

func newStop() *stop { return &stop{ch: make(map[int64]chan error), all: make(chan struct{})} }

func (s *stop) of(id int64) chan error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch[id] == nil {
		s.ch[id] = make(chan error, 10)
	}
	return s.ch[id]
}

func (s *stop) handle(ctx context.Context, job *fifo.Job) error {
	select {
	case err := <-s.of(job.ID):
		return err
	case <-s.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Two workers run as many jobs of each group at once as the limit says, no more, and they start in order.
func TestGroupLimit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	require.NoError(t, b.client.Queue("q").Configure(t.Context(), fifo.Settings{GroupLimit: 3}))
	r, s := newRoster(t), newStop()
	b.run(b.crowd(r, fifo.Batch{}, s.handle))
	b.run(b.crowd(r, fifo.Batch{}, s.handle))
	ids := map[string][]int64{"a": b.enqueue("a", 7), "b": b.enqueue("b", 7)}
	r.reach(t, "a", ids["a"][:3]...)
	r.reach(t, "b", ids["b"][:3]...)
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
		receipts, err := b.client.Enqueue(b.t.Context(), fifo.Message{Queue: "q", GroupID: group})
		require.NoError(b.t, err)
		ids = append(ids, receipts[0].ID)
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
	t.Parallel()
	for name, why := range map[string]error{
		"fails": fifo.RetryAfter(time.Hour, errOnPurpose), "snoozes": fifo.Snooze(time.Hour, errOnPurpose),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.groupLimit(1, 2)
			r, s := newRoster(t), newStop()
			ids := b.enqueue("a", 5)
			b.run(b.crowd(r, fifo.Batch{}, s.handle))
			r.reach(t, "a", ids[0], ids[1])
			s.of(ids[0]) <- why
			r.reach(t, "a", ids[1])
			b.elsewhere(r, s)
			require.Equal(t, []int64{ids[1]}, r.runs("a"))
			s.of(ids[1]) <- nil
			r.reach(t, "a")
			b.elsewhere(r, s)
			require.Empty(t, r.runs("a"))
			require.NoError(t, b.client.Queue("q").RetryNow(t.Context(), ids[0]))
			r.reach(t, "a", ids[0], ids[2])
			close(s.all)
			b.drained()
			require.Equal(t, slices.Concat(ids[:2], ids[:1], ids[2:]), r.starts("a"))
		})
	}
	t.Run("locked", func(t *testing.T) {
		t.Parallel()
		b := newBed(t)
		b.groupLimit(1, 3)
		r, s := newRoster(t), newStop()
		ids := b.enqueue("a", 3)
		tx, err := b.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), "SELECT FROM pgfifo.jobs WHERE id = $1 FOR UPDATE", ids[1])
		require.NoError(t, err)
		w := b.crowd(r, fifo.Batch{}, s.handle)
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
	t.Parallel()
	const limit, groups, each = 3, 4, 60
	b := newBed(t)
	b.groupLimit(1, limit)
	r := newRoster(t)
	for _, batch := range []fifo.Batch{{Jobs: 5}, {Groups: 3}} {
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
	t.Parallel()
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
	b.run(b.crowd(r, fifo.Batch{}, h, watchful))
	b.run(b.crowd(r, fifo.Batch{}, h, watchful))
	r.reach(t, "a", ids[:3]...)
	b.exec("SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a, pgfifo.attempt_marks m " +
		"WHERE a.backend_xid = m.xid::xid")
	await(t, "two starts of each", func() bool { return len(r.starts("a")) == 6 })
	r.reach(t, "a", ids[:3]...)
	close(s.all)
	b.drained()
	require.Equal(t, slices.Concat(ids[:3], ids), r.starts("a"))
	require.Equal(t, map[int64]int{ids[0]: 2, ids[1]: 2, ids[2]: 2, ids[3]: 1, ids[4]: 1}, attempts)
	require.Zero(t, b.count("attempt_marks"))
}

// A limit of groups is changed beside workers that run. Never more run than the former one says or the new one, and
// when those have ended that ran before, no more than the new one.
func TestGroupLimitThatChanges(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]fifo.Batch{"one": {}, "jobs": {Jobs: 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			ids := b.enqueue("a", 20)
			var now atomic.Pointer[gauge]
			all, done := newGauge(), sync.Map{}
			close(all.open)
			spell := func() *gauge {
				g := newGauge()
				now.Store(g)
				return g
			}
			before := spell()
			for range 2 {
				w := &fifo.Worker{Client: b.client, Concurrency: 8, PollInterval: 100 * time.Millisecond}
				w.HandleQueue("q", fifo.Queue{Batch: batch, Handler: fifo.HandlerFunc(
					func(ctx context.Context, job *fifo.Job) error {
						g := now.Load()
						switch {
						case job.GroupID == "elsewhere":
							return nil
						case job.ID <= ids[3]: // of the first batch
							g = before
						}
						all.now.Add(1)
						defer all.now.Add(-1)
						n, _ := done.LoadOrStore(job.ID, new(atomic.Int64))
						n.(*atomic.Int64).Add(1)
						return g.handle(ctx, job)
					})})
				b.run(w)
			}
			steady := func(g *gauge, n int64) {
				t.Helper()
				g.reach(t, n)
				for range 5 {
					b.enqueue("a", 1) // which is announced, and tried
					b.enqueue("elsewhere", 1)
					await(t, "others to be done", func() bool {
						return query[int](b, "SELECT count(*) FROM pgfifo.jobs WHERE group_id = 'elsewhere'") == 0
					})
				}
				require.Equal(t, n, g.most.Load())
				require.Equal(t, n, all.now.Load())
			}
			before.reach(t, 1)
			b.groupLimit(1, 3)
			three := spell()
			require.Equal(t, int64(1), before.most.Load())
			close(before.open)
			steady(three, 3)
			b.groupLimit(3, 5)
			steady(three, 5)
			b.groupLimit(5, 2)
			two := spell()
			close(three.open)
			steady(two, 2)
			b.groupLimit(2, 1)
			one := spell()
			close(two.open)
			steady(one, 1)
			close(one.open)
			b.drained()
			for _, id := range ids {
				n, _ := done.Load(id)
				require.Equal(t, int64(1), n.(*atomic.Int64).Load())
			}
		})
	}
}

// What operators ask of a group of which several jobs run, and what they do to it, is about all of these.
func TestGroupLimitForOperators(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.groupLimit(1, 2)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 4)
	w := b.crowd(r, fifo.Batch{}, s.handle, watchful)
	b.run(w)
	r.reach(t, "a", ids[:2]...)
	q := b.client.Queue("q")
	why := func(id int64, state fifo.State, reason string) {
		t.Helper()
		status, err := q.WhyJob(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, state, status.State)
		require.Regexp(t, reason, status.Reason())
		require.Equal(t, id, status.JobID)
		require.Equal(t, ids[0], status.HeadID)
	}
	why(ids[0], fifo.Held, "runs since")
	why(ids[1], fifo.Held, "runs since")
	why(ids[2], fifo.OverLimit, "waits: the group is at its limit")
	why(ids[3], fifo.Behind, "waits behind 3 of its group")
	require.ErrorIs(t, q.Delete(t.Context(), ids[1]), fifo.ErrJobHeld)
	b.exec("UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE id = $1", ids[2])
	why(ids[2], fifo.Delayed, "is delayed until")
	require.NoError(t, q.RetryNow(t.Context(), ids[2]))

	ended, err := q.Group("a").Terminate(t.Context())
	require.NoError(t, err)
	require.True(t, ended)
	await(t, "both to start again", func() bool { return len(r.starts("a")) == 4 })
	r.reach(t, "a", ids[:2]...)
	_, _, err = q.Group("a").Cancel(t.Context(), "enough")
	require.NoError(t, err)
	r.reach(t, "a")
	b.elsewhere(r, s)
	require.Empty(t, r.runs("a"))
	for _, job := range b.jobs() {
		require.Equal(t, job.ID <= ids[1], job.Attempts == 1, "those that were terminated, and no other")
	}
	_, err = q.Group("a").Resume(t.Context())
	require.NoError(t, err)
	r.reach(t, "a", ids[:2]...)
	close(s.all)
	b.drained()
	require.Equal(t, slices.Concat(ids[:2], ids[:2], ids), r.starts("a"))
}

// Jobs that have used up their attempts block their group: the first of two that do is named, and those that run go on.
func TestGroupLimitBlocks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.groupLimit(1, 3)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 4)
	w := &fifo.Worker{Client: b.client, MaxAttempts: 1, PollInterval: 100 * time.Millisecond}
	w.HandleQueue("q", fifo.Queue{OnGiveUp: fifo.BlockGroup, Handler: fifo.HandlerFunc(
		func(ctx context.Context, job *fifo.Job) error { return r.handle(b, ctx, job, s.handle) })})
	b.run(w)
	r.reach(t, "a", ids[:3]...)
	blocks := func(id int64) {
		t.Helper()
		await(t, "the block", func() bool {
			status, err := b.client.Queue("q").Group("a").Why(t.Context())
			require.NoError(t, err)
			return status.PauseJob == id
		})
	}
	s.of(ids[2]) <- errOnPurpose
	blocks(ids[2])
	s.of(ids[1]) <- errOnPurpose // beside that, it does not use its last attempt up
	s.of(ids[0]) <- nil
	r.reach(t, "a")
	blocks(ids[2])
	_, err := b.client.Queue("q").Group("a").Resume(t.Context())
	require.NoError(t, err)
	r.reach(t, "a", ids[1:]...)
	for _, job := range b.jobs() {
		require.Zero(t, job.Attempts)
	}
	s.of(ids[1]) <- errOnPurpose
	blocks(ids[1])
	_, err = b.client.Queue("q").Group("a").SkipHead(t.Context())
	require.NoError(t, err)
	require.Len(t, b.deadLetters(), 1)
	close(s.all)
	b.drained()
}

// Each attempt has a fencing token of its own, higher than those of the attempts before it at the same job.
func TestGroupLimitFence(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.groupLimit(1, 2)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 2)
	var mu sync.Mutex
	tokens := make(map[int64][]int64)
	b.run(b.crowd(r, fifo.Batch{}, func(ctx context.Context, job *fifo.Job) error {
		token, err := job.Fence(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		tokens[job.ID] = append(tokens[job.ID], token)
		mu.Unlock()
		return s.handle(ctx, job)
	}))
	r.reach(t, "a", ids...)
	s.of(ids[0]) <- errOnPurpose
	await(t, "the second attempt", func() bool { return len(r.starts("a")) == 3 })
	close(s.all)
	b.drained()
	mu.Lock()
	defer mu.Unlock()
	require.Len(t, tokens[ids[0]], 2)
	require.Len(t, tokens[ids[1]], 1)
	require.Less(t, tokens[ids[0]][0], tokens[ids[0]][1])
	require.NotContains(t, tokens[ids[0]], tokens[ids[1]][0])
}

// A queue with both limits keeps both, also beside workers that knew of one when the other was made.
func TestGroupLimitAndLimit(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	both := fifo.Settings{Limit: 4, GroupLimit: 3}
	b.limit(0, 4)
	before, now := newGauge(), newGauge()
	var first atomic.Pointer[gauge]
	first.Store(before)
	var mu sync.Mutex
	groups, most := make(map[string]int), 0
	b.enqueue("a", 12)
	b.enqueue("b", 12)
	w := &fifo.Worker{Client: b.client, Concurrency: 8, PollInterval: 100 * time.Millisecond}
	w.Handle("q", fifo.HandlerFunc(func(ctx context.Context, job *fifo.Job) error {
		group := job.GroupID
		mu.Lock()
		groups[group]++
		most = max(most, groups[group])
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			groups[group]--
		}()
		return first.Load().handle(ctx, job)
	}))
	b.run(w)
	before.reach(t, 2)
	require.NoError(t, b.client.Queue("q").Reconfigure(t.Context(), fifo.Settings{Limit: 4}, both))
	first.Store(now)
	close(before.open)
	now.reach(t, 4)
	misses(t, w, 5)
	require.Equal(t, int64(4), now.most.Load())
	mu.Lock()
	require.LessOrEqual(t, most, 3)
	mu.Unlock()
	require.NoError(t, b.client.Queue("q").Reconfigure(t.Context(), both, fifo.Settings{GroupLimit: 3}))
	now.reach(t, 6)
	close(now.open)
	b.drained()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, 3, most)
}

// A limit of groups is one of the settings. A queue that never had one above 1 is as it was; one that had keeps the
// mark that stops other claims.
func TestGroupLimitSettings(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	q := b.client.Queue("q")
	requireMode := func(limit, stored, marks int) {
		t.Helper()
		s, err := q.Settings(t.Context())
		require.NoError(t, err)
		require.Equal(t, limit, s.GroupLimit)
		require.Equal(t, stored, query[int](b, "SELECT coalesce(max(group_limit), -1)::int FROM pgfifo.queues"))
		require.Equal(t, marks, query[int](b, "SELECT count(*) FROM pgfifo.pauses WHERE limited"))
	}
	requireMode(1, -1, 0)
	require.NoError(t, q.Configure(t.Context(), fifo.Settings{GroupLimit: 1}))
	require.NoError(t, q.Configure(t.Context(), fifo.Settings{}))
	requireMode(1, 0, 0)
	require.ErrorIs(t, q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}), fifo.ErrConflict)
	require.ErrorIs(t, q.Reconfigure(t.Context(), fifo.Settings{GroupLimit: 3}, fifo.Settings{}), fifo.ErrConflict)
	b.groupLimit(0, 2)
	requireMode(2, 2, 1)
	b.groupLimit(2, 1)
	requireMode(1, 1, 1)
	require.NoError(t, q.Configure(t.Context(), fifo.Settings{}))
	b.groupLimit(0, fifo.MaxGroupLimit)
	requireMode(fifo.MaxGroupLimit, fifo.MaxGroupLimit, 1)
	for _, n := range []int{-1, fifo.MaxGroupLimit + 1} {
		require.ErrorIs(t, q.Configure(t.Context(), fifo.Settings{GroupLimit: n}), fifo.ErrInvalidSettings)
	}
}

// A worker beside one that has filled a group tries it now and then, and takes what there is room for when that has
// stopped.
func TestFullGroupDoesNotSpin(t *testing.T) {
	t.Parallel()
	const poll = 100 * time.Millisecond
	for _, free := range []bool{false, true} {
		t.Run(fmt.Sprint("free head ", free), func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			b.groupLimit(1, 2)
			r, s := newRoster(t), newStop()
			q, ids := b.client.Queue("q"), b.enqueue("a", 10)
			running, next := ids[:2], ids[2:4]
			if free {
				running, next = ids[1:3], []int64{ids[0], ids[3]}
				require.NoError(t, q.Bury(t.Context(), ids[0], "later"))
			}
			runs := b.crowd(r, fifo.Batch{}, s.handle)
			first := b.run(runs)
			r.reach(t, "a", running...)
			if free {
				_, err := q.Redrive(t.Context(), fifo.Redrive{Letters: fifo.Letters{All: true}})
				require.NoError(t, err)
				require.Equal(t, fifo.OverLimit, b.why("a").State)
			}
			second := b.crowd(r, fifo.Batch{}, s.handle)
			b.run(second)
			misses(t, second, 3)
			missed := func() [2]int64 { return [2]int64{runs.Stats().Missed, second.Stats().Missed} }
			from, began := missed(), time.Now()
			misses(t, second, 10)
			to, tries := missed(), int64(time.Since(began)/poll)+1
			for i := range to {
				require.LessOrEqual(t, to[i]-from[i], 2*(tries+1), "one or two each PollInterval")
			}
			first.cancel()
			s.of(running[0]) <- nil
			s.of(running[1]) <- nil
			require.NoError(t, first.wait())
			r.reach(t, "a", next...)
			close(s.all)
			b.drained()
		})
	}
}

// What has begun before the groups of its queue had a limit holds its group, with its batch, until it has ended.
func TestGroupLimitRaised(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]fifo.Batch{"one": {}, "jobs": {Jobs: 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t)
			s, ids := newStop(), b.enqueue("a", 8)
			var running atomic.Int64
			runs := sync.Map{}
			worker := func() *fifo.Worker {
				w := &fifo.Worker{Client: b.client, Concurrency: 8, PollInterval: 100 * time.Millisecond}
				w.HandleQueue("q", fifo.Queue{Batch: batch, Handler: fifo.HandlerFunc(
					func(ctx context.Context, job *fifo.Job) error {
						running.Add(1)
						defer running.Add(-1)
						n, _ := runs.LoadOrStore(job.ID, new(atomic.Int64))
						n.(*atomic.Int64).Add(1)
						return s.handle(ctx, job)
					})})
				return w
			}
			b.run(worker())
			await(t, "the first job", func() bool { return running.Load() == 1 })
			second := worker()
			b.run(second)
			b.groupLimit(1, 3)
			misses(t, second, 3)
			require.EqualValues(t, 1, running.Load())
			close(s.all)
			b.drained()
			for _, id := range ids {
				n, _ := runs.Load(id)
				require.EqualValues(t, 1, n.(*atomic.Int64).Load())
			}
		})
	}
}
