package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// give enqueues a job with a priority to each of n groups whose names begin so.
func (s *stage) give(priority, n int, name string) {
	s.Helper()
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload, priority) "+
		"SELECT $1, $2 || to_char(i, 'FM00000'), '', nullif($3::integer, 0) FROM generate_series(1, $4::integer) i",
		queue, name, priority, n)
}

// urgents looks for jobs with a priority until that comes round, and returns the groups that were found.
func (s *stage) urgents(scout *Scout, conn *pgx.Conn) (found []string) {
	s.Helper()
	for more := true; more; more = scout.more {
		require.NoError(s, scout.lookUrgent(s.Context(), conn, View{}))
		found = append(found, drained(scout.Turns)...)
	}
	return found
}

// A look finds the groups whose heads have a priority, and no others: not those whose head has none, is not due or is
// paused.
func TestUrgentHeads(t *testing.T) {
	s := newStage(t)
	s.give(0, 100, "low")
	s.give(9, 50, "low")
	s.give(1, 2, "b")
	s.give(9, 2, "b")
	s.give(9, 1, "c")
	s.give(8, 1, "later")
	s.Exec("UPDATE pgfifo.jobs SET run_at = now() + interval '1 hour' WHERE group_id = 'later00001'")
	s.give(8, 1, "due")
	s.Exec("UPDATE pgfifo.jobs SET run_at = now() WHERE group_id = 'due00001'")
	s.give(8, 1, "paused")
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'paused00001')", queue)
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload, priority) VALUES ('other', 'g', '', 9)")
	_, scout := s.scout(time.Hour)
	found := s.urgents(scout, s.Session().Conn)
	require.Equal(t, []string{"c00001", "due00001"}, found[:2])
	require.ElementsMatch(t, []string{"b00001", "b00002"}, found[2:])
}

// Looks go on where they have stopped, and come round: many groups in front, or many jobs of one group, hide nothing.
func TestUrgentLooksComeRound(t *testing.T) {
	s := newStage(t)
	const n = 2*maxUrgent + 7
	for range 3 {
		s.give(0, n, "a") // in front, with a low head
		s.give(5, n, "a")
	}
	s.give(5, n, "b")
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload, priority) "+
		"SELECT $1, 'b00001', '', 5 FROM generate_series(1, $2::integer)", queue, 3*maxUrgent)
	s.give(5, 1, "c")
	_, scout := s.scout(time.Hour)
	conn := s.Session().Conn
	found := make(map[string]bool)
	for _, id := range s.urgents(scout, conn) {
		require.False(t, found[id], "%s once more", id)
		found[id] = true
	}
	require.Len(t, found, n+1)
	s.give(5, 1, "0 new")
	require.NoError(t, scout.lookUrgent(t.Context(), conn, View{}))
	require.Contains(t, scout.Turns.known, group("0 new00001"))
}

// A look takes in no more than there is room for of a priority, in each share, and goes on from there; a lower priority
// has room of its own.
func TestRoomForUrgentGroups(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"a queue": false, "shares": true}, func(t *testing.T, shares bool) {
		s := newStage(t)
		s.give(7, 4*maxUrgent, "a/")
		s.give(6, 10, "a/low")
		s.give(7, 3, "z/")
		turns, scout := s.scout(time.Hour)
		if shares {
			turns.SetShares(queue, Shares{Of: tenants})
		}
		conn := s.Session().Conn
		for range 8 {
			require.NoError(t, scout.lookUrgent(t.Context(), conn, View{}))
		}
		r := turns.rooms.part(queue, "a")
		require.Len(t, r.lists[7], maxUrgent)
		require.Len(t, r.lists[6], 10)
		if shares {
			require.Len(t, turns.rooms.part(queue, "z").lists[7], 3)
		}
		found := 0
		for scout.some = true; scout.some; {
			for turn := turns.TryNext(); turn != nil; turn = turns.TryNext() {
				if s.finish(turns, turn) {
					found++
				}
			}
			require.NoError(t, scout.lookUrgent(t.Context(), conn, View{}))
		}
		require.Equal(t, 4*maxUrgent+13, found)
	})
}

// While a full line waits, a group whose head has a priority is found before any other: by looks alone, which are rare
// where there are no priorities, and by a notification at once.
func TestUrgentGroupBehindAFullLine(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"looks": false, "notification": true}, func(t *testing.T, announce bool) {
		s := newStage(t)
		s.give(0, 500, "a")
		turns := NewTurns(64)
		scout := NewScout(turns, []string{queue}, s.Schema, time.Hour)
		s.run(scout)
		s.Until(func() bool { return turns.View().Ready >= 64 })
		s.give(1, 1, "z")
		if announce {
			turns.Urge(group("z00001"), 501)
		}
		s.Until(func() bool {
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return turns.line.row(queue).ranked == 1
		})
		require.Equal(t, "z00001", turns.TryNext().GroupID)
	})
}

// No look is made for them while no group is in line, nor often while there are none.
func TestUrgentLooksAreRare(t *testing.T) {
	s := newStage(t)
	turns, scout := s.scout(time.Hour)
	idle := scout.nextUrgent(turns.View())
	require.Positive(t, idle)
	turns.Offer(ready("a"))
	conn := s.Session().Conn
	require.LessOrEqual(t, scout.nextUrgent(turns.View()), time.Duration(0))
	require.NoError(t, scout.lookUrgent(t.Context(), conn, View{}))
	require.Greater(t, scout.nextUrgent(turns.View()), rareGap/4)
	scout.Urge()
	require.True(t, woken(turns))
	scout.cost = time.Microsecond
	require.LessOrEqual(t, scout.nextUrgent(turns.View()), minGap)
}

// A million groups, each with a job that has a priority behind a head that has none: what looks cost is bounded.
func TestUrgentLookIsShort(t *testing.T) {
	s := newStage(t)
	for p := range MaxPriority {
		s.give(0, 1000, fmt.Sprint("g", p))
		s.give(p+1, 1000, fmt.Sprint("g", p))
	}
	turns, scout := s.scout(time.Hour)
	hints, err := scout.readUrgent(t.Context(), s.Session().Conn, turns.rooms.fullLevels())
	require.NoError(t, err)
	require.Len(t, hints, MaxPriority*maxUrgent)
	require.Equal(t, Candidate{Key: group("g800001"), Priority: MaxPriority}, hints[0])
}
