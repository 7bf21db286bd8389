package schedule

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNextWaits(t *testing.T) {
	turns := newTurns(t)
	got, _ := waiting(t, turns) // it waits, or is about to: the scout is asked to look
	require.True(t, turns.Look().Idle)
	require.Equal(t, 1, turns.Offer(ready("a")))
	require.Equal(t, "a", (<-got).GroupID)
	require.False(t, turns.Look().Idle)

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
	require.False(t, turns.Look().Idle, "it does not wait any more")
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
