package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// crowd adds a job to each of n groups of a tenant.
func (s *stage) crowd(tenant string, n int) {
	s.Helper()
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) "+
		"SELECT $1, $2 || '/' || to_char(i, 'FM00000'), '' FROM generate_series(1, $3::integer) i", queue, tenant, n)
}

// finish deletes the head of a turn's group, as a lane does, and gives it back. It reports whether there was one.
func (s *stage) finish(turns *Turns, turn *Turn) bool {
	s.Helper()
	turns.Free(turn.Queue)
	turns.mu.Lock()
	turn.paid()() // no share is charged with what the server takes
	turns.mu.Unlock()
	more := pgtest.Column[bool](s.DB, `WITH head AS (DELETE FROM pgfifo.jobs
		WHERE id = (SELECT min(id) FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2) RETURNING id)
		SELECT EXISTS (SELECT FROM pgfifo.jobs j WHERE queue = $1 AND group_id = $2 AND j.id > head.id) FROM head`,
		turn.Queue, turn.GroupID)
	if len(more) == 0 { // a walk has seen what is gone meanwhile
		turns.Done(turn, Outcome{Missed: true})
		return false
	}
	turns.Done(turn, Outcome{Finished: 1, More: more[0]})
	return true
}

// A tenant with more groups than the line takes, of which nothing is worked, hides no group of another one: not those
// that were there, nor what comes, is due or is resumed.
func TestShareIsFoundBehindAnother(t *testing.T) {
	polls := map[string]time.Duration{"walks": time.Second, "looks": 100 * time.Millisecond}
	pgtest.OverNamed(t, polls, func(t *testing.T, name string, poll time.Duration) {
		s := newStage(t)
		const limit = 64
		s.crowd("many", 10*limit)
		s.send(queue, "zfew/first")
		s.send(queue, "zfew/paused")
		s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'zfew/paused')", queue)
		turns := NewTurns(limit)
		turns.SetShares(queue, Shares{Of: tenants})
		scout := NewScout(turns, []string{queue}, s.Schema, poll)
		conn := s.Session().Conn
		scout.look.on = name == "looks" // it takes more than a hundredth of poll to walk
		few := turns.line.row(queue).shares.row("zfew")
		until := func(n int) {
			t.Helper()
			s.stepUntil(scout, conn, func() bool {
				turns.Due()
				return few.len() == n
			})
			require.LessOrEqual(t, turns.line.row(queue).len(), 2*limit)
			if name == "looks" {
				require.True(t, scout.look.on)
			}
		}
		until(1)
		require.LessOrEqual(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.queue_groups"), limit+1,
			"rows of groups that are not in line are not made")
		s.send(queue, "zfew/late")
		s.crowd("more", 10*limit) // there is no room for most of them
		until(2)
		s.Exec("DELETE FROM pgfifo.pauses")
		until(3)
		s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
			VALUES ($1, 'zfew/due', '', statement_timestamp() + interval '1 second')`, queue)
		until(4)
	})
}

// Tenants with more groups each than the line takes go on side by side, although one's groups are all before another's,
// or among them: each is read where there was no more room for it. Every job of every group is found.
func TestSharesGoOnWhereTheyWere(t *testing.T) {
	s := newStage(t)
	const n, rounds, limit = 60, 3 * quantum, 16
	for range rounds {
		s.crowd("a", n)
		s.crowd("b", n)
		s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
			SELECT $1, 'a/' || to_char(i, 'FM00000') || '/c', '' FROM generate_series(1, $2::integer) i`, queue, n)
	}
	of := func(ids []string) []string {
		shares := tenants(ids)
		for i, id := range ids {
			if id[len(id)-1] == 'c' {
				shares[i] = "c"
			}
		}
		return shares
	}
	turns := NewTurns(limit)
	turns.SetShares(queue, Shares{Of: of})
	s.run(NewScout(turns, []string{queue}, s.Schema, time.Hour))
	worked, byShare := make(map[groups.Key]int), make(map[string]int)
	cost := make(map[*row]time.Duration) // each turn costs the same, however busy the machine is
	s.Until(func() bool { return len(turns.View().rooms) == 1 && turns.View().rooms[0].started })
	for done := 0; done < 3*n*rounds; {
		s.Until(func() bool { // the scout keeps up
			turns.mu.Lock()
			defer turns.mu.Unlock()
			return turns.rooms.refillOf(turns.line.row(queue), refill{}).share == nil
		})
		turn := s.next(turns)
		share, r := turn.share, turn.row
		finished := s.finish(turns, turn)
		turns.mu.Lock()
		cost[r] += time.Millisecond
		r.used = cost[r]
		turns.mu.Unlock()
		if !finished {
			continue
		}
		done++
		worked[turn.Key]++
		byShare[share]++
		if done == n*rounds { // a third
			for share, count := range byShare {
				require.InDelta(t, done/3, count, float64(done)/6, fmt.Sprint(share, " of ", byShare))
			}
		}
		require.LessOrEqual(t, s.inLine(turns, queue), 3*limit)
	}
	require.Len(t, worked, 3*n)
	for key, count := range worked {
		require.Equal(t, rounds, count, fmt.Sprint(key))
	}
}
