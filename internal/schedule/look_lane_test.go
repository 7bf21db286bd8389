package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A job that is enqueued while a lane has its group, unannounced, is worked when the lane is done, although the lane's
// claim was before it: no look reads its id a second time.
func TestLooksFindWhatComesWhileALaneHasTheGroup(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	conn := s.Session().Conn
	turns, scout := s.scout(time.Second)
	s.looking(scout, conn)
	first := s.Enqueue(1, "a")[0]
	require.Equal(t, []string{"a"}, s.found(scout, conn))
	turn := turns.known[group("a")]
	h, _, err := s.lane().Step(t.Context(), nil, turn.Request())
	require.NoError(t, err)
	require.False(t, h.More)
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	turns.Done(turn, Outcome{Finished: first})
	require.Equal(t, []string{"a"}, append(drained(turns), s.found(scout, conn)...))
}

// A sequence that is set back draws ids that were drawn before, below those that are known: only a walk finds those
// jobs.
func TestLooksSeeASequenceSetBack(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', 1000)")
	conn := s.Session().Conn
	turns, scout := s.scout(time.Second)
	s.looking(scout, conn)
	require.Empty(t, s.found(scout, conn))
	require.True(t, scout.covers())
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', 1)")
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	require.False(t, scout.covers())
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a"}, drained(turns))
}
