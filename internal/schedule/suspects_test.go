package schedule

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// suspected has claims tell of all groups in line that their heads are suspects.
func suspected(t *testing.T, turns *Turns) {
	t.Helper()
	for n := turns.View().Ready; n > 0; n-- {
		turn := turns.TryNext()
		require.False(t, turn.Request().SuspectAllowed)
		turns.Done(turn, Outcome{More: true, Untried: true})
	}
}

// twoOfSuspects returns two Turns that know suspects: a and b, and c.
func twoOfSuspects(t *testing.T) (s *Suspects, one, two *Turns) {
	s, one, two = new(Suspects), roomyTurns(), roomyTurns()
	one.SetSuspects(s)
	two.SetSuspects(s)
	one.Offer(ready("a", "b"))
	two.Offer(ready("c"))
	suspected(t, one)
	suspected(t, two)
	return s, one, two
}

// next returns what a lane gets that is free, or nil.
func next(turns *Turns) *Turn {
	turns.Due()
	return turns.TryNext()
}

// Of the suspects in two Turns a lane gets one. Its time counts from when its handler begins, however long it was being
// claimed and marked before.
func TestSuspectsWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, one, two := twoOfSuspects(t)

		first := next(one)
		require.True(t, first.Request().SuspectAllowed)
		require.Nil(t, next(one))
		require.Nil(t, next(two))
		require.Zero(t, one.Offer(ready("a", "b")), "that they wait is no news")
		one.Offer(ready("innocent"))
		require.Equal(t, "innocent", next(one).GroupID, "others do not wait")
		time.Sleep(tuning.Long - time.Millisecond)
		require.Nil(t, next(one), "while it is marked nobody begins")

		one.Started(first, 1, false, true)
		time.Sleep(suspectFor - time.Millisecond)
		require.Nil(t, next(one))
		require.Nil(t, next(two))
		time.Sleep(time.Millisecond)
		second := next(two)
		require.Equal(t, "c", second.GroupID)
		two.Started(second, 1, false, true)
		one.Done(first, Outcome{Finished: 1})
		require.Nil(t, next(one), "the second has its time, too")
		require.False(t, two.Again(second, Outcome{Finished: 1, More: true}), "its end is to be recorded first")
		two.Done(second, Outcome{Finished: 1})
		third := next(one)
		require.True(t, third.SuspectAllowed(), "at once")
		one.Done(third, Outcome{Missed: true})
		require.True(t, s.free(), "it has not begun")
	})
}

// Lanes of all Turns that wait for work are told when a suspect has ended. One that was lost has its time.
func TestSuspectsHearOfTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, one, two := twoOfSuspects(t)
		first := next(one)
		one.Started(first, 1, false, true)
		require.Nil(t, next(two))
		go two.Run(t.Context())
		got, _ := waiting(t, two)
		synctest.Wait()
		began := time.Now()
		one.Done(first, Outcome{Finished: 1})
		second := <-got
		require.Zero(t, time.Since(began))

		two.Started(second, 1, false, true)
		require.Nil(t, next(one))
		two.Done(second, Outcome{Missed: true})
		go one.Run(t.Context())
		got, _ = waiting(t, one)
		require.Equal(t, "b", (<-got).GroupID)
		require.Equal(t, suspectFor, time.Since(began))
	})
}

// One that is handed to a lane which stops waiting keeps no other one waiting.
func TestSuspectOfALaneThatStops(t *testing.T) {
	t.Parallel()
	returned := 0
	for range 200 {
		var s Suspects
		turns := roomyTurns()
		turns.SetSuspects(&s)
		got, cancel := waiting(t, turns)
		turns.mu.Lock()
		cancel()
		turns.put(&Turn{Key: group("a"), suspect: true})
		turns.mu.Unlock()
		if <-got == nil {
			returned++
			require.True(t, s.free())
			require.NotNil(t, next(turns))
		}
	}
	require.NotZero(t, returned)
}

// Without Suspects, as in RunOne, a claim takes any.
func TestNoSuspects(t *testing.T) {
	turns := roomyTurns()
	turns.Offer(ready("a"))
	require.True(t, next(turns).Request().SuspectAllowed)
}

// A group does not wait whose head is another job by now.
func TestSuspectGoes(t *testing.T) {
	for name, newHead := range map[string]func(*Turns){
		"found":     func(turns *Turns) { turns.Offer([]Candidate{{Key: group("b"), ID: 3}}) },
		"announced": func(turns *Turns) { turns.Announce(group("b"), 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var s Suspects
			turns := roomyTurns()
			turns.SetSuspects(&s)
			turns.Offer(ready("a", "b"))
			suspected(t, turns)
			require.Equal(t, "a", next(turns).GroupID)
			require.Nil(t, next(turns))
			newHead(turns)
			turn := next(turns)
			require.Equal(t, "b", turn.GroupID)
			require.False(t, turn.Request().SuspectAllowed, "the claim has to tell")
			turns.Started(turn, 2, false, false)
			require.False(t, s.free(), "that is no matter of the other one")
		})
	}
}
