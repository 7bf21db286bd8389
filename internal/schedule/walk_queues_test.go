package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

const other = "z" // behind queue in the order of the walks

// inLine returns how many groups of a queue are in line.
func (s *stage) inLine(turns *Turns, queue string) int {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	return turns.line.row(queue).len()
}

// roomy reports whether the line has had room for all of every queue since its last walk began.
func roomy(turns *Turns) bool {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	for _, r := range turns.line.rows {
		if r.overflowed {
			return false
		}
	}
	return true
}

func (s *stage) send(queue, id string) {
	s.Helper()
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, $2, '')", queue, id)
}

// A queue with more ready groups than the line takes, of which nothing is worked, keeps no other waiting: one walk
// finds what was there, and those that follow what comes or is resumed.
func TestCutQueueKeepsNoOtherWaiting(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"walks": false, "looks": true}, func(t *testing.T, on bool) {
		s := newStage(t)
		const limit = 64
		s.Crowd(3 * limit)
		s.send(other, "first")
		s.send(other, "paused")
		s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'paused')", other)
		turns := NewTurns(limit)
		scout := NewScout(turns, []string{queue, other}, s.Schema, time.Second)
		conn := s.Session().Conn
		scout.look.on = on
		until := func(n int) {
			t.Helper()
			s.stepUntil(scout, conn, func() bool { return s.inLine(turns, other) == n })
			require.Equal(t, limit, s.inLine(turns, queue))
			require.Equal(t, on, scout.look.on)
		}
		until(1)
		s.send(other, "late")
		s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
			SELECT $1, 'new' || i, '' FROM generate_series(1, 100) i`, queue) // there is no room for them
		until(2)
		s.Exec("DELETE FROM pgfifo.pauses")
		until(3)

		seen := make(map[string]bool)
		for len(seen) < 3*limit+100+3 {
			_, err := scout.step(t.Context(), conn)
			require.NoError(t, err)
			require.LessOrEqual(t, s.inLine(turns, queue), limit)
			for turn := turns.TryNext(); turn != nil; turn = turns.TryNext() {
				require.False(t, seen[turn.GroupID], turn.GroupID)
				seen[turn.GroupID] = true
				s.finish(turns, turn)
			}
		}
	})
}

// What comes or is resumed when the other queue is cut already, after a first walk over both.
func TestLateGroupsBesideACutQueue(t *testing.T) {
	s := newStage(t)
	const limit = 64
	s.send(other, "first")
	s.send(other, "paused")
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'paused')", other)
	turns := NewTurns(limit)
	const poll = time.Second
	s.run(NewScout(turns, []string{queue, other}, s.Schema, poll))
	until := func(queue string, n int) {
		t.Helper()
		s.Until(func() bool { return s.inLine(turns, queue) == n })
	}
	until(other, 1)
	s.Crowd(3 * limit)
	until(queue, limit)
	s.Until(func() bool { return !roomy(turns) })
	s.send(other, "late")
	until(other, 2)
	s.Exec("DELETE FROM pgfifo.pauses")
	resumed := time.Now()
	until(other, 3)
	require.Less(t, time.Since(resumed), 20*poll)
	until(queue, limit)
}

// Two queues that are cut, and one that is not: each goes on where it was, and every group has its turns.
func TestCutQueuesGoOnWhereTheyWere(t *testing.T) {
	s := newStage(t)
	const n, rounds = 60, quantum + 1
	for range rounds {
		s.Crowd(n)
	}
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) SELECT 'r', group_id, '' FROM pgfifo.jobs ORDER BY id")
	turns := s.scouting(16, time.Hour, queue, "r", other)
	worked := make(map[groups.Key]int)
	for done := int64(0); done < 2*n*rounds; {
		if turn := s.next(turns); s.finish(turns, turn) {
			done++
			worked[turn.Key]++
		}
	}
	require.Len(t, worked, 2*n)
	for key, count := range worked {
		require.Equal(t, rounds, count, fmt.Sprint(key))
	}
}

// The parts of the line are full each for itself.
func TestPartsOfTheLine(t *testing.T) {
	t.Parallel()
	turns := NewTurns(2)
	turns.setScout([]string{queue, other}, 0, 0)
	turns.rooms.walked(queue, false)
	turns.rooms.walked(other, true)
	otherA := groups.Key{Queue: other, GroupID: "a"}
	turns.Offer([]Candidate{{Key: group("a"), ID: 1}, {Key: group("b"), ID: 1}, {Key: otherA, ID: 1}})
	view := turns.View()
	require.Equal(t, 1, view.Room)
	require.False(t, roomy(turns))
	for range 2*quantum + 1 { // a's, and the others in between
		turn := turns.TryNext()
		require.NotNil(t, turn)
		turns.Done(turn, Outcome{Finished: 1, More: true})
	}
	require.NotNil(t, turns.known[otherA], "its queue has room for all")
}
