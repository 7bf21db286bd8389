package schedule

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

func TestNextWaits(t *testing.T) {
	turns := newTurns(t)
	got, _ := waiting(t, turns) // it waits, or is about to: the scout is asked to look
	require.True(t, turns.View().Idle)
	require.Equal(t, 1, turns.Offer(ready("a")))
	require.Equal(t, "a", (<-got).GroupID)
	require.False(t, turns.View().Idle)

	turns.Offer(ready("b"))
	require.Equal(t, "b", turns.Next(t.Context()).GroupID, "at once")
}

// Lanes that wait get work last in, first out: the rest may go on sleeping.
func TestNextWakesTheLastThatWaits(t *testing.T) {
	turns := newTurns(t)
	got := make(chan string)
	for i := range 3 {
		go func() { got <- fmt.Sprint(turns.Next(t.Context()).GroupID, " for ", i) }()
		<-turns.wake
	}
	for i, id := range []string{"a", "b", "c"} {
		turns.Offer(ready(id))
		require.Equal(t, fmt.Sprint(id, " for ", 2-i), <-got)
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	turns := newTurns(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan *Turn)
	go func() { got <- turns.Next(ctx) }()
	<-turns.wake
	cancel()
	require.Nil(t, <-got)
	require.False(t, turns.View().Idle, "it does not wait any more")
	turns.Offer(ready("a"))
	require.Equal(t, []string{"a"}, drained(turns))
}

// waiting has a lane wait for a turn. It returns where that will be, and what ends the wait.
func waiting(t *testing.T, turns *Turns) (<-chan *Turn, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan *Turn, 1)
	go func() { got <- turns.Next(ctx) }()
	<-turns.wake
	return got, cancel
}

// A turn that is handed to a lane at the moment at which it stops waiting is not lost.
func TestNextReturnsTheTurn(t *testing.T) {
	t.Parallel()
	returned := 0
	for range 200 {
		turns := roomyTurns()
		got, cancel := waiting(t, turns)
		turns.mu.Lock()
		cancel()
		turns.put(&Turn{Key: group("a")})
		turns.mu.Unlock()
		if turn := <-got; turn != nil {
			require.Nil(t, turns.TryNext())
			continue
		}
		returned++
		require.Equal(t, []string{"a"}, drained(turns))
	}
	require.Positive(t, returned)
}

// Nor are those that were to be claimed with it.
func TestNextReturnsTheCompany(t *testing.T) {
	t.Parallel()
	returned := 0
	for range 200 {
		turns := staffed(2, map[string]Lanes{"a": {Max: 1}})
		turns.SetBatch("a", Batch{Groups: 10})
		turns.Offer(of("a", ready("0")))
		require.NotNil(t, turns.TryNext())
		turns.Offer(of("a", ready("1", "2", "3")))
		got, cancel := waiting(t, turns)
		turns.mu.Lock()
		cancel()
		turns.lanes.end("a")
		turns.dispatch()
		turns.mu.Unlock()
		if turn := <-got; turn != nil {
			require.Len(t, turn.with, 2)
			continue
		}
		returned++
		turn := turns.TryNext()
		require.NotNil(t, turn)
		require.Len(t, turn.with, 2, "they are in line again")
	}
	require.Positive(t, returned)
}

// A head that nobody seems to run, and whose claim is missed again and again, is tried ever less often.
func TestMissedAgainAndAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		cs := ready("a")
		tries := 0
		try := func(d time.Duration) int {
			tries = 0
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
				if _, unknown := turns.watched.holders(turns.poll); len(unknown) > 0 {
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
		turns.Done(turn, Outcome{More: true, DueIn: time.Second, Unavailable: true, NoCompany: true, OneByOne: 9})
		cs[0].Holder = 7
		turns.Offer(cs)
		ended, _ := turns.watched.by(map[int64]bool{7: false})
		require.Len(t, ended, 1)
		done := turns.Recheck(ended)
		cs[0].Holder, cs[0].DueIn = 0, time.Second
		turns.Offer(cs)
		done()
		require.Nil(t, turns.TryNext())
		time.Sleep(time.Second)
		turns.Due()
		turn = turns.TryNext()
		require.Equal(t, 1, turns.Unavailable(turn))
		require.True(t, turn.noCompany)
		require.EqualValues(t, 9, turn.single)

		turns.Done(turn, Outcome{Missed: true})
		turns.Recheck([]groups.Key{turn.Key})
		turns.Announce(turn.Key, cs[0].ID)
		turn = turns.TryNext()
		require.Equal(t, 1, turns.Unavailable(turn))
		turns.Done(turn, Outcome{Missed: true})
		turns.Recheck([]groups.Key{turn.Key})()
		turns.Announce(turn.Key, cs[0].ID) // much later
		require.Zero(t, turns.Unavailable(turns.TryNext()))
	})
}
