package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// limited are groups of a queue that has a limit.
func limited(ids ...string) []Candidate {
	cs := ready(ids...)
	for i := range cs {
		cs[i].Slot = true
	}
	return cs
}

// over is what a lane does whose claim has found no slot.
func over(turns *Turns, turn *Turn) {
	turns.Over(turn.Queue)
	turns.Free(turn.Queue)
	turns.Done(turn, Outcome{Missed: true, Over: true})
}

func TestQueueOverItsLimit(t *testing.T) {
	turns := newTurns(t, limited("a", "b", "c", "d")...)
	turns.Offer(of("other", ready("a")))
	a, b := turns.TryNext(), turns.TryNext()
	if a.Queue == "other" {
		a = turns.TryNext()
	}
	if b.Queue == "other" {
		b = turns.TryNext()
	}
	require.True(t, a.HasSlot())
	require.True(t, a.Request().Slot)
	turns.Under(a.Queue)
	over(turns, b)
	require.Nil(t, turns.TryNext(), "it is at its limit, and what there was of the other queue is taken")
	_, unknown := turns.Held()
	require.Len(t, unknown, 1, "the scout is to look at the group that found no slot")

	// A lane that has ended a job has freed a slot, and one may try.
	next, _ := turns.Swap(a, false)
	require.NotNil(t, next)
	require.Nil(t, turns.TryNext())
	turns.Done(a, Outcome{Finished: 1})

	// When the scout has looked, one may, and another one if that had success.
	turns.Recheck(unknown)
	turns.Offer(limited(b.GroupID))
	probe := turns.TryNext()
	require.NotNil(t, probe)
	require.Nil(t, turns.TryNext())
	turns.Under(probe.Queue)
	last := turns.TryNext()
	require.NotNil(t, last)
	require.Nil(t, turns.TryNext())
	over(turns, last)
	require.Nil(t, turns.TryNext())

	// So it is when a walk finds the group before the scout looks.
	turns.Offer(limited(last.GroupID))
	require.Equal(t, last.GroupID, turns.TryNext().GroupID)

	// A queue that has no limit any more waits for nothing.
	turns.Offer(limited("e", "f"))
	over(turns, last)
	require.Nil(t, turns.TryNext())
	turns.Offer(ready(last.GroupID))
	require.Len(t, drained(turns), 3)
}

// A group that the server refuses something about waits longer each time, also if it found no slot in between.
func TestTroubleOverALimit(t *testing.T) {
	turns := newTurns(t, limited("a")...)
	for n := 1; n <= 5; n++ {
		turn := turns.TryNext()
		over(turns, turn)
		_, unknown := turns.Held()
		turns.Recheck(unknown) // the scout has looked
		turns.Offer(limited("a"))
		turn = turns.TryNext()
		require.Equal(t, "a", turn.GroupID)
		turns.Free(queue)
		turns.Done(turn, Outcome{Trouble: true})
		require.Equal(t, n, turns.known[group("a")].troubles)
		turns.mu.Lock() // its time has come
		turns.known[group("a")].at = time.Now()
		turns.mu.Unlock()
		turns.Due()
	}
}
