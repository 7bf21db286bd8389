package fifo_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// What operators ask of a group of which several jobs run, and what they do to it, is about all of these.
func TestGroupLimitForOperators(t *testing.T) {
	b := newBed(t)
	b.groupLimit(1, 2)
	r, s := newRoster(t), newStop()
	ids := b.enqueue("a", 4)
	w := b.crowd(r, fifo.Queue{}, s.handle, watchful)
	b.run(w)
	r.reach(t, "a", ids[:2]...)
	q := b.client.Queue("q")
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
	require.ErrorIs(t, q.Delete(t.Context(), ids[1]), fifo.ErrJobHeld)
	b.exec("UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE id = $1", ids[2])
	why(ids[2], fifo.Delayed, "is delayed until")
	require.NoError(t, q.RetryNow(t.Context(), ids[2]))

	require.True(t, b.terminates(q.Group("a")))
	await(t, "both to start again", func() bool { return len(r.starts("a")) == 4 })
	r.reach(t, "a", ids[:2]...)
	_, _, err := q.Group("a").Cancel(t.Context(), "enough")
	require.NoError(t, err)
	r.reach(t, "a")
	b.elsewhere(r, s)
	require.Empty(t, r.runs("a"))
	for _, job := range b.jobs() {
		require.Equal(t, job.ID <= ids[1], job.Attempts == 1, "those that were terminated, and no other")
	}
	b.resumes(q.Group("a"))
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
	w := &fifo.Worker{Client: b.client, MaxAttempts: 1, PollInterval: 100 * time.Millisecond}
	w.HandleQueue("q", fifo.Queue{
		OnGiveUp: fifo.BlockGroup,
		Handler:  func(ctx context.Context, job *fifo.Job) error { return r.handle(b, ctx, job, s.handle) },
	})
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
	s.of(ids[1]) <- errOnPurpose
	s.of(ids[0]) <- nil
	r.reach(t, "a")
	await(t, "both to be recorded", func() bool { return w.Stats().Blocked == 2 }) // until then the second one runs
	blocks(ids[2])
	resume := func() {
		t.Helper()
		b.resumes(b.client.Queue("q").Group("a"))
	}
	resume()
	blocks(ids[1])
	require.Equal(t, ids[:3], r.starts("a"))
	resume()
	r.reach(t, "a", ids[1:]...)
	for _, job := range b.jobs() {
		require.Zero(t, job.Attempts)
	}
	s.of(ids[1]) <- errOnPurpose
	s.of(ids[2]) <- errOnPurpose
	await(t, "both to be recorded", func() bool { return w.Stats().Blocked == 5 })
	first := b.why("a").PauseJob
	require.NoError(t, b.client.Queue("q").Bury(t.Context(), first, "skipped"))
	blocks(ids[1] + ids[2] - first)
	require.Len(t, b.deadLetters(), 1)
	require.Len(t, r.starts("a"), 6)
	resume()
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
