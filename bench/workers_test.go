package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWorkers(t *testing.T) {
	t.Parallel()
	results := run(t, "workers", "-lanes", "1,3", "-for", "100ms", "-rounds", "1", "-groups", "20")
	require.Len(t, results, 4)
	for _, r := range results {
		require.Positive(t, r.Rate)
		require.Less(t, r.Ratio, 1.1, "the handlers take their time")
		require.GreaterOrEqual(t, r.Extra["handler_ms"], 4.5) // 5, and as much more as the machine is busy
		require.Less(t, r.Extra["handler_ms"], 1000.0)
	}
	require.Equal(t, "1 x 200/s", results[0].RatioTo)
	require.Positive(t, results[2].Extra["of_ceiling"])
}

func TestMemory(t *testing.T) {
	t.Parallel()
	results := run(t, "memory", "-groups", "20,200", "-lanes", "3", "-every", "10ms")
	require.Len(t, results, 2)
	require.Positive(t, results[1].Ratio)
	for _, r := range results {
		require.Positive(t, r.Extra["rss_before_mib"])
		require.Positive(t, r.Extra["rss_max_mib"])
	}
}

// What timers are late is taken off.
func TestStint(t *testing.T) {
	t.Parallel()
	s := &stint{want: time.Millisecond}
	begun := 0
	s.first = func() { begun++ }
	for range 100 {
		require.NoError(t, s.work(t.Context()))
	}
	require.Equal(t, 1, begun)
	require.Less(t, s.late, float64(time.Second))
	require.GreaterOrEqual(t, s.mean(), s.want/2, "never less than half")
}
