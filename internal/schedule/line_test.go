package schedule

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

// These tests run in bubbles of testing/synctest: their sleeps move a clock of their own, and take no time.

// Ten lanes that a queue with long jobs keeps busy, all in step, leave a queue that wants little all that it wants: no
// job of it waits for longer than one of the long ones takes.
func TestQueueOfShortJobsBesideLongOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const long, gap, most = time.Second, 250 * time.Millisecond, 100
		turns := roomyTurns()
		turns.SetConcurrency(10)
		var ids []string
		for id := range 5000 {
			ids = append(ids, string(rune('a'+id)))
		}
		turns.Offer(of("long", ready(ids...)))
		ctx, stop := context.WithCancel(t.Context())
		sent, waits := make(chan time.Time, most), make(chan time.Duration, most)
		var lanes sync.WaitGroup
		work := func(turn *Turn) Outcome {
			if turn.Queue == "long" {
				time.Sleep(long)
				return Outcome{Finished: 1, More: true}
			}
			time.Sleep(2 * time.Millisecond)
			waits <- time.Since(<-sent)
			return Outcome{Finished: 1, More: len(sent) > 0}
		}
		for range 10 {
			lanes.Go(func() { seat(ctx, turns, work) })
		}
		for range most {
			time.Sleep(gap)
			sent <- time.Now()
			turns.Announce(groups.Key{Queue: "short", GroupID: "g"}, 1)
		}
		for range most {
			require.Less(t, <-waits, long+100*time.Millisecond)
		}
		stop()
		lanes.Wait()
	})
}

// Turns that wait go together, as many as may; not more than a lane's share, no other queue's, and none that runs
// alone.
func TestTurnsGather(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
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
		turns.Done(turn.with[0], Outcome{More: true, NoCompany: true})
		require.Equal(t, []string{"b"}, drained(turns))
	})
}

// One that is to run alone keeps its place among the Turns: whoever finds it anew would take it along with others
// again.
func TestAloneIsNotForgotten(t *testing.T) {
	turns := newTurns(t)
	turns.SetBatch(queue, Batch{Groups: 2})
	turns.Offer(ready("a", "b", "c"))
	turns.rooms.walked(queue, false) // there are more groups than the line holds
	turn := turns.TryNext()
	alone := turn.with[0]
	turns.Done(turn, Outcome{Finished: 1, More: true})
	turns.Done(alone, Outcome{More: true, NoCompany: true})
	require.Equal(t, "c", turns.TryNext().GroupID)
	require.Same(t, alone, turns.TryNext())
}
