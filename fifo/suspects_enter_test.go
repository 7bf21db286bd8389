package fifo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A suspect's time counts from when its handler begins, however long it was being marked before.
func TestSuspectEnters(t *testing.T) {
	t.Parallel()
	var s suspects
	entered, wait := s.enter()
	require.Zero(t, wait)
	require.Greater(t, time.Until(entered), 10*suspectFor, "while it is marked nobody begins")
	_, wait = s.enter()
	require.Equal(t, suspectFor, wait, "and the others look again")

	began := time.Now()
	until := s.begin()
	require.GreaterOrEqual(t, until.Sub(began), suspectFor)
	s.leave(entered)
	_, wait = s.enter()
	require.Positive(t, wait, "it has begun")
	s.leave(until)
	_, wait = s.enter()
	require.Zero(t, wait)
}
