package fifo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// resumes reports whether the scope was paused.
func (b *bed) resumes(s fifo.Scope) bool {
	b.t.Helper()
	paused, err := s.Resume(promptly(b.t))
	require.NoError(b.t, err)
	return paused
}

func (b *bed) pauses() []fifo.Pause {
	b.t.Helper()
	list, err := b.client.Pauses(b.t.Context())
	require.NoError(b.t, err)
	return list
}

func TestPausesAndResume(t *testing.T) {
	b := newBed(t)
	ctx, q := t.Context(), b.q
	for _, x := range []struct {
		scope  fifo.Scope
		reason string
	}{
		{q, "all"},
		{q.Group("a"), ""},
		{q.Group("é '"), "one ?0 $1"},
		{q.Group("a"), "changed"},
		{q.Group("long"), strings.Repeat("\n", fifo.MaxReasonBytes)},
	} {
		require.NoError(t, pausing(x.scope.Pause(ctx, x.reason)))
	}
	var got []string
	for _, p := range b.pauses() {
		require.WithinDuration(t, time.Now(), p.PausedAt, time.Minute)
		got = append(got, groups.Key{Queue: p.Queue, GroupID: p.GroupID}.String()+" "+strings.TrimSpace(p.Reason))
	}
	require.Equal(t, []string{"q/ all", "q/a changed", "q/long ", "q/é ' one ?0 $1"}, got)

	require.True(t, b.resumes(q))
	require.False(t, b.resumes(q))
	require.False(t, b.resumes(q.Group("never paused")))
	require.False(t, b.resumes(b.client.Queue("other").Group("a")))
	require.True(t, b.resumes(q.Group("é '")))
	require.Len(t, b.pauses(), 2, "its groups stay paused")
}

// Pausing says what it finds: whether it was paused, and how many jobs it has.
func TestPauseSaysWhatItFinds(t *testing.T) {
	b := newBed(t)
	b.plant("q", 2, "a", "b")
	for _, x := range []struct {
		s    fifo.Scope
		was  bool
		jobs int
	}{
		{b.q.Group("a"), false, 2},
		{b.q.Group("a"), true, 2},
		{b.q.Group("c"), false, 0},
		{b.q, false, 4},
		{b.q, true, 4},
		{b.client.Queue("typo"), false, 0},
	} {
		was, jobs, err := x.s.Pause(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, x.was, was, x.s)
		require.Equal(t, x.jobs, jobs, x.s)
	}
}

func TestInvalidReason(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"a\x00b", "\xff", strings.Repeat("x", fifo.MaxReasonBytes+1)} {
		q := nowhere(t).Queue("q")
		require.ErrorIs(t, pausing(q.Pause(t.Context(), reason)), fifo.ErrInvalidID, "%q", reason)
		require.ErrorIs(t, q.Bury(t.Context(), 1, reason), fifo.ErrInvalidID, "%q", reason)
	}
}

// Workers are told what is resumed, when that is committed, and not of what was not paused.
func TestResumeIsAnnounced(t *testing.T) {
	pgtest.OverAll(t, scopesWithin, func(t *testing.T, within scopeWithin) {
		b := newBed(t)
		e, q := b.listen(), b.q
		for _, x := range []struct {
			scope fifo.Scope
			want  string
		}{
			{q, `{"q":"q"}`}, {q.Group("g"), `{"q":"q","g":[{"g":"g","i":0}]}`},
		} {
			require.NoError(t, pausing(x.scope.Pause(t.Context(), "")))
			for _, paused := range []bool{true, false} {
				scope, end := within(b, x.scope)
				require.Equal(t, paused, b.resumes(scope))
				if end.commit != nil {
					require.Empty(t, e.before())
					require.NoError(t, end.commit())
				}
				if paused {
					require.JSONEq(t, x.want, e.next())
				}
			}
			b.send("next", nil)
			_, byID := groupsOf(t, e.next())
			require.NotEmpty(t, byID, "nothing was told of what was not paused")
			require.NotContains(t, byID, int64(0), "nor here")
		}
	})
}

// A worker that would poll once an hour goes on with what is resumed.
func TestResumeWakesWorkers(t *testing.T) { overLeases(t, testResumeWakesWorkers) }

func testResumeWakesWorkers(t *testing.T, by lease) {
	b := by.on(newBed(t))
	w := b.worker(nop, rarePolls)
	b.run(w)
	b.quiet(w)
	for group, scope := range map[string]fifo.Scope{"g": b.q.Group("g"), "h": b.q} { // a known group may not be claimed
		require.NoError(t, pausing(scope.Pause(t.Context(), "")))
		claims := w.Stats().Claims
		b.send(group, nil)
		await(t, "the worker to look", func() bool { return w.Stats().Claims > claims })
		require.Equal(t, 1, b.count("jobs"))
		require.True(t, b.resumes(scope))
		b.drained()
	}
}

func TestPurgeLeavesTheRunningJob(t *testing.T) {
	b := newBed(t)
	b.plant("q", 3, "a")
	h := newBlocking()
	b.run(b.worker(h.handle, oneLane))
	head := receive(t, h.started, "the head of a")
	b.plant("q", 3, "b")
	b.plant("other", 1, "a")
	purge := func(s fifo.Scope) int {
		t.Helper()
		n, err := s.Purge(promptly(t))
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 2, purge(b.q.Group("a")))
	require.Equal(t, 3, purge(b.q))
	jobs := b.jobs()
	require.Len(t, jobs, 2)
	require.Equal(t, "other", jobs[0].Queue)
	require.Equal(t, head, jobs[1].ID)
	close(h.release)
	await(t, "the running job to end", func() bool { return b.count("jobs") == 1 })
	require.Zero(t, purge(b.q))
	require.Equal(t, []int64{head}, b.ledger.order())
}
