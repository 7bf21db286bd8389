package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 3, median([]float64{9, 1, 2, 4}), 0)
}

// The machine gets slower from round to round, and b stays twice as fast as a.
func TestRatioIsMadePairByPair(t *testing.T) {
	t.Parallel()
	var order string
	member := func(name string, each time.Duration) *system {
		return &system{name: name, work: func(_ context.Context, n int) (time.Duration, error) {
			round := len(order) / 2
			order += name
			return time.Duration(n) * each << (3 * round), nil
		}}
	}
	a, b := member("a", 2*time.Millisecond), member("b", time.Millisecond)
	rates, err := alternate(t.Context(), 4, 12, []*system{a, b})
	require.NoError(t, err)
	require.Equal(t, "abbaabba", order)
	require.InDelta(t, 2, rates.ratio(b, a), 1e-9)
	require.Equal(t, "a", rates.result(b, a).RatioTo)
	require.Empty(t, rates.result(b, nil).RatioTo)
}
