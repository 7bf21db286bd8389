package groups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A group that always has work is always with a lane: what appears below its floor must be found all the same.
func TestFloorOfBusyGroup(t *testing.T) {
	t.Parallel()
	key := Key{"q", "g"}
	for name, c := range map[string]struct {
		meanwhile func(*Turns)
		floor     int64
	}{
		"nothing":          {func(*Turns) {}, 11},
		"later announced":  {func(t *Turns) { t.Announce(key, 12) }, 11},
		"itself found":     {func(t *Turns) { t.Offer([]Candidate{{Key: key, ID: 11}}) }, 11},
		"lower announced":  {func(t *Turns) { t.Announce(key, 5) }, 0},
		"some announced":   {func(t *Turns) { t.Announce(key, 0) }, 0},
		"lower discovered": {func(t *Turns) { t.Offer([]Candidate{{Key: key, ID: 5}}) }, 0},
		"time passed":      {func(t *Turns) { t.floors.born = time.Now().Add(-floorAge); t.Look() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			turns := NewTurns(16)
			turns.Announce(key, 10)
			turn := turns.TryNext()
			require.True(t, turns.Again(turn, Outcome{Finished: 10, More: true}))
			require.Equal(t, int64(10), turn.floor)

			c.meanwhile(turns) // a lane has job 11
			require.True(t, turns.Again(turn, Outcome{Finished: 11, More: true}))
			require.Equal(t, c.floor, turn.floor)

			require.True(t, turns.Again(turn, Outcome{Finished: 12, More: true}))
			require.Equal(t, int64(12), turn.floor, "it is raised again by the next job")
		})
	}
}

// The first job after floors were forgotten has no floor to drop, but would set one.
func TestFloorBelowFirstClaim(t *testing.T) {
	t.Parallel()
	key := Key{"q", "g"}
	turns := NewTurns(16)
	turns.Announce(key, 10)
	turn := turns.TryNext()
	turns.Announce(key, 5)
	turns.Done(turn, Outcome{Finished: 10, More: true})
	turn = turns.TryNext()
	require.NotNil(t, turn)
	require.Zero(t, turn.floor)
}
