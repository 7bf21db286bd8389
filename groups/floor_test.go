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
			require.Equal(t, int64(10), turn.floor.id)

			c.meanwhile(turns) // a lane has job 11
			require.True(t, turns.Again(turn, Outcome{Finished: 11, More: true}))
			require.Equal(t, c.floor, turn.floor.id)

			require.True(t, turns.Again(turn, Outcome{Finished: 12, More: true}))
			require.Equal(t, int64(12), turn.floor.id, "it is raised again by the next job")
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
	require.Zero(t, turn.floor.id)
}

// A server that has lost its newest commits has jobs again that were finished. A floor from before is not for connections
// that were made since.
func TestFloorOfAServerThatForgot(t *testing.T) {
	t.Parallel()
	for name, ids := range map[string][]string{"one group": {"a"}, "many": {"a", "b"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.enqueue(3, ids...)
			turns := roomyTurns()
			turns.SetBatch(queue, Batch{Groups: len(ids)})
			turns.Offer(ready(ids...))
			l := s.lane()
			for range 2 {
				turn := turns.TryNext()
				h, _, err := l.Step(t.Context(), nil, turn)
				require.NoError(t, err)
				require.Len(t, h.Rest, len(ids)-1)
				s.end(l)
				s.exec("DELETE FROM pgfifo.jobs WHERE id = $1", h.ID)
				turns.Done(turn, Outcome{Finished: h.ID, More: true})
				for i, other := range turn.With {
					s.exec("DELETE FROM pgfifo.jobs WHERE id = $1", h.Rest[i].ID)
					turns.Done(other, Outcome{Finished: h.Rest[i].ID, More: true})
				}
			}
			s.exec("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ($1, 'a', 1, '')", queue)
			turn := turns.TryNext()
			require.Greater(t, turn.floor.id, int64(1))
			h, _, err := s.lane().Step(t.Context(), nil, turn)
			require.NoError(t, err)
			require.Equal(t, int64(1), h.ID)
		})
	}
}
