package fifo_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A limit of groups is changed beside workers that run. Never more run than the former one says or the new one, and
// when those have ended that ran before, no more than the new one.
func TestGroupLimitThatChanges(t *testing.T) {
	pgtest.OverAll(t, map[string]fifo.Queue{"one": {}, "jobs": {BatchJobs: 4}}, func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		b.ledger.overlaps, b.ledger.unordered = true, true
		ids := b.enqueue("a", 20)
		var now atomic.Pointer[gauge]
		all := newGauge()
		close(all.open)
		spell := func() *gauge {
			g := newGauge()
			now.Store(g)
			return g
		}
		before := spell()
		var workers []*fifo.Worker
		lost := func() (n int64) {
			for _, w := range workers {
				n += w.Stats().Lost
			}
			return n
		}
		for range 2 {
			w := b.each(batch, func(ctx context.Context, job *fifo.Job) error {
				g := now.Load()
				switch {
				case job.GroupID == "elsewhere":
					return nil
				case job.ID <= ids[3]: // of the first batch
					g = before
				}
				all.now.Add(1)
				defer all.now.Add(-1)
				return g.handle(ctx, job)
			}, func(w *fifo.Worker) { w.Concurrency = 6 })
			workers = append(workers, w)
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
			require.Equal(t, n, g.most.Load(), "with %d attempts lost", lost())
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
		order := b.ledger.order()
		slices.Sort(order)
		require.Equal(t, ids, order[:len(ids)], "each once")
	})
}

// A queue with both limits keeps both, also beside workers that knew of one when the other was made.
func TestGroupLimitAndLimit(t *testing.T) {
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
	w.Handle("q", func(ctx context.Context, job *fifo.Job) error {
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
	})
	b.run(w)
	before.reach(t, 2)
	require.NoError(t, b.q.Reconfigure(t.Context(), fifo.Settings{Limit: 4}, both))
	first.Store(now)
	close(before.open)
	now.reach(t, 4)
	misses(t, w, 5)
	require.Equal(t, int64(4), now.most.Load())
	mu.Lock()
	require.LessOrEqual(t, most, 3)
	mu.Unlock()
	require.NoError(t, b.q.Reconfigure(t.Context(), both, fifo.Settings{GroupLimit: 3}))
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
	b := newBed(t)
	requireMode := func(limit, stored, marks int) {
		t.Helper()
		s, err := b.q.Settings(t.Context())
		require.NoError(t, err)
		require.Equal(t, limit, s.GroupLimit)
		require.Equal(t, stored, query[int](b, "SELECT coalesce(max(group_limit), -1)::int FROM pgfifo.queues"))
		require.Equal(t, marks, query[int](b, "SELECT count(*) FROM pgfifo.pauses WHERE limited"))
	}
	requireMode(1, -1, 0)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 1}))
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{}))
	requireMode(1, 0, 0)
	require.ErrorIs(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: 2}), fifo.ErrConflict)
	require.ErrorIs(t, b.q.Reconfigure(t.Context(), fifo.Settings{GroupLimit: 3}, fifo.Settings{}), fifo.ErrConflict)
	b.groupLimit(0, 2)
	requireMode(2, 2, 1)
	b.groupLimit(2, 1)
	requireMode(1, 1, 1)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{}))
	b.groupLimit(0, fifo.MaxGroupLimit)
	requireMode(fifo.MaxGroupLimit, fifo.MaxGroupLimit, 1)
	for _, n := range []int{-1, fifo.MaxGroupLimit + 1} {
		require.ErrorIs(t, b.q.Configure(t.Context(), fifo.Settings{GroupLimit: n}), fifo.ErrInvalidSettings)
	}
}

// What has begun before the groups of its queue had a limit holds its group, with its batch, until it has ended.
func TestGroupLimitRaised(t *testing.T) {
	pgtest.OverAll(t, map[string]fifo.Queue{"one": {}, "jobs": {BatchJobs: 4}}, func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		b.ledger.overlaps, b.ledger.unordered = true, true
		g, ids := newGauge(), b.enqueue("a", 8)
		four := func(w *fifo.Worker) { w.Concurrency = 4 }
		b.run(b.each(batch, g.handle, four))
		g.reach(t, 1)
		second := b.each(batch, g.handle, four)
		b.run(second)
		b.groupLimit(1, 3)
		misses(t, second, 3)
		require.EqualValues(t, 1, g.now.Load())
		close(g.open)
		b.drained()
		require.ElementsMatch(t, ids, b.ledger.order(), "each once")
	})
}

// What operators ask of a group of which several jobs run, and what they do to it, is about all of these.
func TestGroupLimitForOperators(t *testing.T) {
	b := newBed(t)
	b.groupLimit(1, 2)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 4)
	b.run(b.crowd(r, fifo.Queue{}, s.handle, watchful))
	r.reach(t, "a", ids[:2]...)
	why := func(id int64, state fifo.State, reason string) {
		t.Helper()
		status := b.whyJob(id)
		require.Equal(t, state, status.State)
		require.Regexp(t, reason, status.Reason())
		require.Equal(t, id, status.JobID)
		require.Equal(t, ids[0], status.HeadID)
	}
	why(ids[0], fifo.Held, "runs since")
	why(ids[1], fifo.Held, "runs since")
	why(ids[2], fifo.OverLimit, "waits: the group is at its limit")
	why(ids[3], fifo.Behind, "waits behind 3 of its group")
	require.ErrorIs(t, b.q.Delete(t.Context(), ids[1]), fifo.ErrJobHeld)
	b.exec("UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE id = $1", ids[2])
	why(ids[2], fifo.Delayed, "waits until .*: it was postponed, or sent")
	require.NoError(t, b.q.RetryNow(t.Context(), ids[2]))

	require.True(t, b.terminates(b.q.Group("a")))
	await(t, "both to start again", func() bool { return len(r.starts("a")) == 4 })
	r.reach(t, "a", ids[:2]...)
	require.NoError(t, pausing(b.q.Group("a").Cancel(t.Context(), "enough")))
	r.reach(t, "a")
	b.elsewhere(r, s)
	require.Empty(t, r.runs("a"))
	for _, job := range b.jobs() {
		require.Equal(t, job.ID <= ids[1], job.Attempts == 1, "those that were terminated, and no other")
	}
	b.resumes(b.q.Group("a"))
	r.reach(t, "a", ids[:2]...)
	close(s.all)
	b.drained()
	require.Equal(t, slices.Concat(ids[:2], ids[:2], ids), r.starts("a"))
}

// Jobs that have used up their attempts block their group, one after the other, and those that run go on. None is tried
// again before it is resumed itself.
func TestGroupLimitBlocks(t *testing.T) {
	b := newBed(t)
	b.groupLimit(1, 3)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 4)
	w := b.crowd(r, fifo.Queue{OnGiveUp: fifo.BlockGroup, MaxAttempts: 1}, s.handle)
	b.run(w)
	r.reach(t, "a", ids[:3]...)
	blocks := func(id int64) {
		t.Helper()
		await(t, "the block", func() bool { return b.why("a").PauseJob == id })
	}
	s.of(ids[2]) <- errOnPurpose
	blocks(ids[2])
	s.of(ids[1]) <- errOnPurpose
	s.of(ids[0]) <- nil
	r.reach(t, "a")
	await(t, "both to be recorded", func() bool { return w.Stats().Blocked == 2 }) // until then the second one runs
	blocks(ids[2])
	b.resumes(b.q.Group("a"))
	blocks(ids[1])
	require.Equal(t, ids[:3], r.starts("a"))
	b.resumes(b.q.Group("a"))
	r.reach(t, "a", ids[1:]...)
	for _, job := range b.jobs() {
		require.Zero(t, job.Attempts)
	}
	s.of(ids[1]) <- errOnPurpose
	s.of(ids[2]) <- errOnPurpose
	await(t, "both to be recorded", func() bool { return w.Stats().Blocked == 5 })
	first := b.why("a").PauseJob
	b.unlooked(func() error { return b.q.Bury(t.Context(), first, "skipped") })
	blocks(ids[1] + ids[2] - first)
	require.Len(t, b.deadLetters(), 1)
	require.Len(t, r.starts("a"), 6)
	b.resumes(b.q.Group("a"))
	close(s.all)
	b.drained()
}

// Each attempt has a fencing token of its own, higher than those of the attempts before it at the same job.
func TestGroupLimitFence(t *testing.T) {
	b := newBed(t)
	b.groupLimit(1, 2)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 2)
	var mu sync.Mutex
	tokens := make(map[int64][]int64)
	b.run(b.crowd(r, fifo.Queue{}, func(ctx context.Context, job *fifo.Job) error {
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
