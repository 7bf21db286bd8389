package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

// A head that nobody seems to run, and whose claim is missed again and again, is tried ever less often.
func TestMissedAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		cs := ready("a")
		tries := 0
		try := func(d time.Duration) int {
			tries = 0
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if _, unknown := turns.Held(); len(unknown) > 0 {
					turns.Recheck(unknown)
				}
				turns.Offer(cs)
				if turn := turns.TryNext(); turn != nil {
					tries++
					turns.Done(turn, Outcome{Missed: true})
				}
			}
			return tries
		}
		require.Less(t, try(10*time.Second), 40)
		require.Less(t, try(10*time.Second), 22)
		cs[0].ID++ // another head is tried at once
		require.Greater(t, try(10*time.Millisecond), 3)
		cs[0].Holder = 7
		turns.Offer(cs)
		cs[0].Holder = 0 // as is one that somebody has run
		turns.Offer(cs)
		require.NotNil(t, turns.TryNext())
	})
}

// A look that began while a lane had the group tells of it when the group waits already. What is known of it outlives
// that.
func TestLateLook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		cs := ready("a")
		turns.Offer(cs)
		turn := turns.TryNext()
		turn.Unavailable++
		turns.Done(turn, Outcome{More: true, DueIn: time.Second, Alone: true, OneByOne: 9})
		cs[0].Holder = 7
		turns.Offer(cs)
		ended, _ := turns.HeldBy(map[int64]bool{7: false})
		require.Len(t, ended, 1)
		done := turns.Recheck(ended)
		cs[0].Holder, cs[0].DueIn = 0, time.Second
		turns.Offer(cs)
		done()
		require.Nil(t, turns.TryNext())
		time.Sleep(time.Second)
		turns.Due()
		turn = turns.TryNext()
		require.Equal(t, 1, turn.Unavailable)
		require.True(t, turn.alone)
		require.EqualValues(t, 9, turn.single)

		turns.Done(turn, Outcome{Missed: true})
		turns.Recheck([]groups.Key{turn.Key})
		turns.Announce(turn.Key, cs[0].ID)
		turn = turns.TryNext()
		require.Equal(t, 1, turn.Unavailable)
		turns.Done(turn, Outcome{Missed: true})
		turns.Recheck([]groups.Key{turn.Key})()
		turns.Announce(turn.Key, cs[0].ID) // much later
		require.Zero(t, turns.TryNext().Unavailable)
	})
}
