package fifo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
)

// A suspect's time counts from when its handler begins, however long it was being marked before.
func TestSuspectEnters(t *testing.T) {
	t.Parallel()
	var s suspects
	woken := 0
	enter := func() (time.Time, time.Duration) {
		return s.enter(groups.Key{Queue: "q", GroupID: "g"}, func() { woken++ })
	}
	entered, wait := enter()
	require.Zero(t, wait)
	require.Greater(t, time.Until(entered), 10*suspectFor, "while it is marked nobody begins")
	_, wait = enter()
	require.Equal(t, suspectFor, wait, "and the others look again")

	began := time.Now()
	until := s.begin()
	require.GreaterOrEqual(t, until.Sub(began), suspectFor)
	s.leave(entered)
	_, wait = enter()
	require.Positive(t, wait, "it has begun")
	require.Zero(t, woken)
	s.leave(until)
	require.Equal(t, 1, woken, "who waits is told")
	_, wait = enter()
	require.Zero(t, wait)
}
