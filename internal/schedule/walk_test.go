package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/internal/tuning"
	"github.com/pgfifo/pgfifo/migrations"
)

func TestWalkFindsGroupsInEveryState(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "ready", "held", "due", "paused", "idle")
	s.Exec("DELETE FROM pgfifo.jobs WHERE group_id = 'idle'")
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour' " +
		"WHERE group_id = 'due' AND id = 3")
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'paused')", queue)
	l := s.lane()
	h := s.claim(l, "held")
	turns, scout := s.scout(time.Second)
	require.NoError(t, scout.Walk(t.Context(), s.Session().Conn))

	require.Equal(t, int64(1), turns.known[group("ready")].head)
	require.Len(t, turns.known, 3)
	require.InDelta(t, time.Hour, turns.Due(), float64(time.Minute))
	xids, unknown := turns.watched.holders(turns.poll)
	require.Empty(t, unknown)
	xid := pgtest.One[string](s.DB, "SELECT backend_xid::text FROM pg_stat_activity WHERE pid = $1",
		l.Conn().PgConn().PID())
	require.Equal(t, xid, fmt.Sprint(xids[0]))
	require.Equal(t, []string{"ready"}, drained(turns))

	// Free again, the one above the finished job.
	s.end(l, succeed(h)...)
	require.NoError(t, scout.checkWatched(t.Context(), s.Session().Conn, View{}))
	require.Equal(t, []string{"held"}, drained(turns))
	require.Zero(t, turns.View().Watched)
}

func TestWalkReachesEveryGroup(t *testing.T) {
	s := newStage(t)
	n := 2*tuning.Rows + 7
	s.Crowd(n)
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('r', 'z', ''), ('not mine', 'a', '')")
	turns, scout := s.scout(time.Second, queue, "empty", "r")
	require.NoError(t, scout.Walk(t.Context(), s.Session().Conn))
	require.True(t, roomy(turns))
	require.Len(t, drained(turns), n+1)
	require.Equal(t, n+1, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.queue_groups"))
	require.False(t, scout.midway())
}

// With more groups than the line holds, and lanes that are always busy, one walk follows the other: none waits for
// Poll.
func TestWalksFollowEachOtherWhileGroupsWaitOutside(t *testing.T) {
	s := newStage(t)
	const n, rounds = 60, 2*quantum + 1
	for range rounds {
		s.Crowd(n)
	}
	turns := s.scouting(16, time.Hour, queue)
	s.Until(func() bool { return !roomy(turns) }) // it is full
	worked := make(map[string]int)
	for range n * rounds {
		var turn *Turn
		s.Until(func() bool { turn = turns.TryNext(); return turn != nil }) // no lane ever waits
		s.Exec("DELETE FROM pgfifo.jobs WHERE id = (SELECT min(id) FROM pgfifo.jobs WHERE group_id = $1)", turn.GroupID)
		worked[turn.GroupID]++
		turns.Done(turn, Outcome{Finished: int64(worked[turn.GroupID]), More: worked[turn.GroupID] < rounds})
	}
	for _, count := range worked {
		require.Equal(t, rounds, count)
	}
}

// Where groups are short the walk reads job after job, where they are long it skips; either way it finds every head
// once.
func TestWalkThroughShortAndLongGroups(t *testing.T) {
	s := newStage(t)
	const n = 2*tuning.Rows + 7
	s.Crowd(n)
	s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, 'g' || to_char(g, 'FM00000'), '' FROM generate_series(300, 420) g, generate_series(1, 100)`, queue)
	turns, scout := s.scout(time.Second)
	heads := pgtest.One[int64](s.DB,
		"SELECT sum(id)::bigint FROM (SELECT min(id) AS id FROM pgfifo.jobs GROUP BY group_id) h")
	skipped := 0
	conn := s.Session().Conn
	for more := true; more; more = scout.midway() {
		if scout.walks[0].skip {
			skipped++
		}
		require.NoError(t, scout.walk(t.Context(), conn, turns.View()))
	}
	require.NotZero(t, skipped)
	require.Less(t, skipped, 8)
	sum, count := int64(0), 0
	for turn := turns.TryNext(); turn != nil; turn = turns.TryNext() {
		sum, count = sum+turn.head, count+1
	}
	require.Equal(t, n, count)
	require.Equal(t, heads, sum)
}

// Over many dead entries a walk is slow, and the next one is far off. Floors are forgotten in time all the same.
func TestSlowWalksDoNotKeepFloors(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	turns, scout := s.scout(time.Hour)
	conn := s.Session().Conn
	s.look(scout, conn)
	wait, err := scout.step(t.Context(), conn)
	require.NoError(t, err)
	require.Positive(t, wait)
	require.LessOrEqual(t, wait, tuning.Wait)
	require.Greater(t, scout.nextWalk(turns.View()), time.Hour, "no walk for long")
}

// The first walk finds a whole batch of groups at once, and does not make the others wait for the busy lanes' sake.
func TestTheFirstWalkHurries(t *testing.T) {
	s := newStage(t)
	s.Crowd(2*tuning.Rows + 7)
	s.Exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, 'g' || to_char(g, 'FM00000'), '' FROM generate_series(0, 40) g, generate_series(1, 100)`, queue)
	turns, scout := s.scout(time.Second)
	conn := s.Session().Conn
	walk := func() View {
		require.NoError(t, scout.walk(t.Context(), conn, turns.View()))
		require.True(t, scout.midway())
		scout.walks[0].cost = time.Minute // what the next one would take
		return turns.View()
	}
	view := walk()
	require.False(t, view.Idle)
	require.Equal(t, turns.rooms.limit-tuning.Rows, view.Room)
	require.LessOrEqual(t, scout.nextWalk(view), time.Duration(0))

	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Greater(t, scout.nextWalk(walk()), time.Minute, "later ones leave the lanes most of the server")
}

func TestTwoSchemasInOneDatabase(t *testing.T) {
	s := newStage(t)
	name, err := schema.Parse(`Other "one"`)
	require.NoError(t, err)
	require.NoError(t, migrations.Up(t.Context(), s.Pool, &migrations.Config{Schema: name.String()}))
	other := &stage{&pgtest.DB{T: t, URL: s.URL, Pool: s.Pool, Schema: name}}
	s.Enqueue(1, "a")
	s.Enqueue(1, "a")
	other.Enqueue(1, "a")

	l, otherLane := s.lane(), other.lane()
	h, otherHold := s.claim(l, "a"), other.claim(otherLane, "a")
	require.True(t, h.More)
	require.False(t, otherHold.More)
	require.Equal(t, []string{"a", "a/1"}, s.Locked())
	require.Equal(t, []string{"a", "a/1"}, other.Locked())
	other.end(otherLane, succeed(otherHold)...)
	require.Equal(t, 2, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
	require.Zero(t, pgtest.One[int](s.DB, `SELECT count(*) FROM "Other ""one""".jobs`))

	turns := NewTurns(10)
	scout := NewScout(turns, []string{queue}, name, time.Second)
	require.NoError(t, scout.Walk(t.Context(), s.Session().Conn))
	require.Nil(t, turns.TryNext())
	require.Equal(t, int64(1), other.collected())
	require.Equal(t, []string{"a"}, s.groupRows())
	s.end(l)
}
