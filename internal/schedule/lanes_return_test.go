package schedule

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is put back was not had: it is the next one again, also of the first walk, and also one whose worker has died.
func TestReturnIsToItsPlace(t *testing.T) {
	for _, next := range []string{"b", "orphan"} {
		turns := NewTurns(100)
		turns.SetConcurrency(1)
		turns.Offer(ready("a", "b", "c", "d"))
		worked := turns.TryNext()
		require.Equal(t, "a", worked.GroupID)
		if next == "orphan" {
			turns.Offer([]Candidate{{Key: group(next), ID: 100, Orphan: true}})
		}
		for range 2 { // for two lanes with slow hooks
			turn, _ := turns.Swap(worked, false)
			require.Equal(t, next, turn.GroupID)
			turns.Return(queue, turn)
		}
		turns.Done(worked, Outcome{})
		turns.Free(queue)
		require.Equal(t, next, turns.TryNext().GroupID)
	}
}

// Every tenth turn that is worked is that of the group which has waited longest, also if every second one is put back.
func TestReturnLeavesAPartForOthers(t *testing.T) {
	for first := range 2 {
		turns := NewTurns(1000)
		turns.SetConcurrency(1)
		for i := range 30 {
			turns.Offer([]Candidate{{Key: group(fmt.Sprint("urgent", i)), ID: int64(i + 1), Priority: 5}})
		}
		turns.Offer([]Candidate{{Key: group("low"), ID: 1000}})
		turn, others, after := turns.TryNext(), 0, int64(10_000)
		for worked := range 300 {
			if turn.priority == 0 {
				others++
			}
			if worked >= first {
				if next, _ := turns.Swap(turn, true); next != nil {
					turns.Return(queue, next)
				}
			}
			after++
			turns.Done(turn, Outcome{Finished: after, More: true, Priority: turn.priority})
			turns.Free(queue)
			turn = turns.TryNext()
		}
		require.Greater(t, others, 5, "of 300, one turn in ten goes to 31 groups in turn")
	}
}
