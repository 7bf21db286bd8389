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
	s := newStage(t)
	turns, scout, conn := s.looking(time.Second)
	first := s.Enqueue(1, "a")[0]
	require.Equal(t, []string{"a"}, s.found(scout, conn))
	turn := turns.known[group("a")]
	h := s.step(s.lane(), nil, turn.Request())
	require.False(t, h.More)
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	turns.Done(turn, Outcome{Finished: first})
	require.Equal(t, []string{"a"}, append(drained(turns), s.found(scout, conn)...))
}

// A sequence that is set back draws ids that were drawn before, below those that are known: only a walk finds those
// jobs.
func TestLooksSeeASequenceSetBack(t *testing.T) {
	s := newStage(t)
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', 1000)")
	turns, scout, conn := s.looking(time.Second)
	require.Empty(t, s.found(scout, conn))
	require.True(t, scout.covers())
	pgtest.One[int64](s.DB, "SELECT setval('pgfifo.jobs_id_seq', 1)")
	s.Enqueue(1, "a")
	require.Empty(t, s.found(scout, conn))
	require.False(t, scout.covers())
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a"}, drained(turns))
}
