package rest_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

func TestEachRestIsTwiceAsLong(t *testing.T) {
	t.Parallel()
	var rests []time.Duration
	for n := range 7 {
		rests = append(rests, rest.Nth(n, 1, 10))
	}
	require.Equal(t, []time.Duration{0, 1, 2, 4, 8, 10, 10}, rests)
	require.Equal(t, tuning.Long, rest.Nth(math.MaxInt, tuning.Rest, tuning.Long))
	require.Equal(t, time.Hour, rest.Nth(math.MaxInt, tuning.Long, time.Hour))
}
