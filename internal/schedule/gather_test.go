package schedule

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

// Turns that wait go together, as many as may; not more than a lane's share, no other queue's, and none that runs
// alone.
func TestTurnsGather(t *testing.T) {
	turns := newTurns(t)
	turns.SetBatch(queue, Batch{Groups: 3})
	turns.Offer(ready("a", "b", "c", "d"))
	turn := turns.TryNext()
	require.Equal(t, "a", turn.GroupID)
	require.Len(t, turn.with, 2)
	turns.Done(turn.with[1], Outcome{})
	require.Equal(t, []string{"d"}, drained(turns))
	f := groups.Key{Queue: "other", GroupID: "f"}
	turns.Offer([]Candidate{{Key: group("e"), ID: 1}, {Key: f, ID: 1}, {Key: group("g"), ID: 1}})
	require.Equal(t, "g", turns.TryNext().with[0].GroupID)
	require.Equal(t, []string{"f"}, drained(turns), "of another queue")
	turns.Done(turn.with[0], Outcome{More: true, Alone: true})
	require.Equal(t, []string{"b"}, drained(turns))
}

// One that is to run alone keeps its place among the Turns: whoever finds it anew would take it along with others
// again.
func TestAloneIsNotForgotten(t *testing.T) {
	turns := newTurns(t)
	turns.SetBatch(queue, Batch{Groups: 2})
	turns.Offer(ready("a", "b", "c"))
	turns.Walked(queue, false) // there are more groups than the line holds
	turn := turns.TryNext()
	alone := turn.with[0]
	turns.Done(turn, Outcome{Finished: 1, More: true})
	turns.Done(alone, Outcome{More: true, Alone: true})
	require.Equal(t, "c", turns.TryNext().GroupID)
	require.Same(t, alone, turns.TryNext())
}
