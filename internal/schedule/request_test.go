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
