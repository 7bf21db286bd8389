package lease

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// settledSlowly returns a set behind the settlement of some groups together that took a while.
func settledSlowly(took time.Duration) (s *slowSet, keys []groups.Key) {
	var some []*settlement
	for i := range 3 * tuning.Few {
		h := &Held{Key: group(fmt.Sprint(i))}
		some, keys = append(some, &settlement{head: h}), append(keys, h.Key)
	}
	s = new(slowSet)
	s.tookTogether(some, took)
	return s, keys
}

// What takes long is settled alone from there on, until it is quick; the others are settled alone once.
func TestSlowGroup(t *testing.T) {
	t.Parallel()
	const long, short = 3 * tuning.Slow, time.Millisecond
	s, keys := settledSlowly(long)
	for _, key := range keys[:tuning.Few] {
		require.True(t, s.apart(key))
	}
	require.False(t, s.apart(keys[tuning.Few]), "a few are enough to find out")
	s.tookAlone(keys[0], 1, long)
	s.tookAlone(keys[1], 1, short)
	require.True(t, s.is(keys[0]))
	require.False(t, s.apart(keys[1]), "it is quick")
	for _, key := range keys[tuning.Few:] {
		require.True(t, s.apart(key), "so it is one of the groups")
		require.False(t, s.is(key))
	}
	s.tookTogether([]*settlement{{head: &Held{Key: keys[0]}}, {head: &Held{Key: keys[1]}}}, long)
	require.True(t, s.is(keys[0]), "it is slow, and not in doubt only")
	s.tookAlone(keys[0], 1, short)
	require.False(t, s.apart(keys[0]))
}

// If all take long, it is the transactions: they are settled together again, until one of them is quick.
func TestSlowTransactions(t *testing.T) {
	t.Parallel()
	const long, longer = 3 * tuning.Slow, 5 * tuning.Slow
	s, keys := settledSlowly(longer)
	for _, key := range keys[:tuning.Few] {
		require.True(t, s.apart(key))
	}
	for i, key := range keys[:tuning.Few] {
		s.tookAlone(key, 1, longer-time.Duration(i)*tuning.Slow/2)
	}
	for _, key := range keys[tuning.Few:] {
		require.False(t, s.apart(key))
	}
	s.tookAlone(keys[0], 1, long)
	require.False(t, s.apart(keys[0]), "it takes what all take")
	require.False(t, s.apart(keys[tuning.Few]))
	both := []*settlement{{head: &Held{Key: keys[0]}}, {head: &Held{Key: keys[tuning.Few]}}}
	s.tookTogether(both, long)
	require.False(t, s.apart(keys[0]))
	s.tookTogether(both[:1], time.Millisecond)
	s.tookTogether(both, long)
	require.True(t, s.apart(keys[0]), "transactions are quick again")
}
