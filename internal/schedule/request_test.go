package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A queue is paused when a group of it becomes free that the scout watches, and resumed before the next look, or in a
// transaction that a look sees.
func TestPauseOfAWatchedGroup(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"between looks": false, "open for a look": true}, func(t *testing.T, seen bool) {
		s := newStage(t)
		s.Enqueue(2, "a")
		l := s.lane()
		hold := s.claim(l, "a")
		turns, scout, conn := s.looking(time.Second)
		require.Equal(t, 1, turns.View().Watched)
		s.Exec("INSERT INTO pgfifo.pauses (queue) VALUES ('q')")
		s.end(l, succeed(hold)...)
		require.NoError(t, scout.checkWatched(t.Context(), conn, turns.View()))
		require.Zero(t, turns.View().Watched, "it is kept nowhere")

		operator := s.Session()
		operator.Do("BEGIN")
		operator.Do(s.Statement("resume"), queue, "")
		if seen {
			require.Empty(t, s.found(scout, conn))
			require.NoError(t, scout.Walk(t.Context(), conn))
			require.Empty(t, drained(turns), "it is paused still")
			require.Empty(t, s.found(scout, conn))
			require.True(t, scout.covers(), "one request is one walk")
		}
		operator.Do("COMMIT")
		require.Empty(t, s.found(scout, conn))
		require.False(t, scout.covers(), "a walk is to be made soon")
		require.NoError(t, scout.Walk(t.Context(), conn))
		require.Equal(t, []string{"a"}, drained(turns))
	})
}

// A claim has met a pause, and so has the walk that it caused, all between two looks.
func TestPauseOverAWalk(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	turns, scout, conn := s.looking(time.Second)
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ('q', 'a')")
	turns.Done(turns.TryNext(), Outcome{Paused: true})
	scout.view()
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Empty(t, drained(turns))
	s.Exec("DELETE FROM pgfifo.pauses")
	require.Empty(t, s.found(scout, conn))
	require.False(t, scout.covers(), "a walk is to be made soon")
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a"}, drained(turns))
}

// The row that says that a queue has a limit is no pause.
func TestLimitRequestsNoWalk(t *testing.T) {
	s := newStage(t)
	s.Exec("INSERT INTO pgfifo.pauses (queue, limited) VALUES ('q', true)")
	_, scout, conn := s.looking(time.Second)
	s.Exec("DELETE FROM pgfifo.pauses")
	require.Empty(t, s.found(scout, conn))
	require.True(t, scout.covers())
}

// A delayed head is taken out while somebody has the next job locked, so that this one does not become due.
func TestNextOfADelayedHeadThatIsLocked(t *testing.T) {
	type verb struct {
		statement string
		args      []any
	}
	pgtest.OverAll(t, map[string]verb{
		"take_out":        {"take_out", []any{queue, "a", 1, nil, 3}},
		"bury":            {"take_out", []any{queue, "a", 1, "", 3}},
		"purge a group":   {"purge", []any{queue, "a"}},
		"purge a queue":   {"purge", []any{queue, nil}},
		"move a group":    {"move", []any{queue, "a", "r", "b", false}},
		"move in a queue": {"move", []any{queue, "a", queue, "b", false}},
		"move a queue":    {"move", []any{queue, nil, "r", nil, false}},
	}, func(t *testing.T, v verb) {
		s := newStage(t)
		require.Equal(t, []int64{1, 2, 3}, s.Enqueue(3, "a"))
		s.Exec("UPDATE pgfifo.jobs SET run_at = now() + interval '1 hour' WHERE id = 1")
		turns, scout, conn := s.looking(time.Second)
		other, operator := s.Session(), s.Session()
		other.Do("BEGIN")
		other.Do(s.Statement("take_out"), queue, "a", 2, nil, 3)
		operator.Do("BEGIN")
		operator.Do(s.Statement(v.statement), v.args...)
		require.NotContains(t, s.found(scout, conn), "a")
		require.False(t, scout.covers(), "a walk is to be made soon")
		require.NoError(t, scout.Walk(t.Context(), conn))
		operator.Do("COMMIT")
		require.NotContains(t, s.found(scout, conn), "a")
		require.False(t, scout.covers(), "and another one")
		require.NoError(t, scout.Walk(t.Context(), conn))
		require.NotContains(t, drained(turns), "a")
		require.Equal(t, 1, turns.View().Watched)
		if v.statement == "take_out" {
			other.Do("COMMIT") // the third job is left
		} else {
			other.Do("ROLLBACK")
		}
		require.NoError(t, scout.checkWatched(t.Context(), conn, turns.View()))
		require.Contains(t, drained(turns), "a")
	})
}

// Of two delayed jobs the second is taken out while somebody takes out the first.
func TestTwoDelayedJobsTakenOut(t *testing.T) {
	s := newStage(t)
	require.Equal(t, []int64{1, 2, 3}, s.Enqueue(3, "a"))
	s.Exec("UPDATE pgfifo.jobs SET run_at = now() + interval '1 hour' WHERE id < 3")
	_, scout, conn := s.looking(time.Second)
	operators := []*pgtest.Session{s.Session(), s.Session()}
	for i, o := range operators {
		o.Do("BEGIN")
		o.Do(s.Statement("take_out"), queue, "a", 2-i, nil, 3)
	}
	for _, o := range operators {
		require.Empty(t, s.found(scout, conn))
		o.Do("COMMIT")
	}
	require.Equal(t, []string{"a"}, s.found(scout, conn))
	require.True(t, scout.covers(), "no walk is requested")
}

// What is taken out without a time, and leaves nothing behind that is due, needs no walk. Nor does a next job that
// becomes due.
func TestTakenOutWithoutARequest(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a")
	s.Enqueue(3, "b")
	s.Exec("UPDATE pgfifo.jobs SET run_at = now() + interval '1 hour' WHERE id IN (1, 4, 5)")
	_, scout, conn := s.looking(time.Second)
	s.Exec(s.Statement("take_out"), queue, "a", 1, nil, 3)
	require.Equal(t, []string{"a"}, s.found(scout, conn))
	s.Exec(s.Statement("take_out"), queue, "a", 2, nil, 3)
	s.Exec(s.Statement("take_out"), queue, "b", 4, nil, 3)
	s.Enqueue(3, "c")
	s.Exec(s.Statement("purge"), queue, "c")
	require.Empty(t, s.found(scout, conn))
	require.True(t, scout.covers())
}
