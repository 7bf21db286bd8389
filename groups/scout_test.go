package groups

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// scout returns Turns and the scout that fills them, not running.
func (s *stage) scout(poll time.Duration, queues ...string) (*Turns, *Scout) {
	turns := NewTurns(4096)
	if len(queues) == 0 {
		queues = []string{queue}
	}
	return turns, NewScout(turns, queues, s.name, poll)
}

// run lets the scout run until the test ends.
func (s *stage) run(scout *Scout) *tracer {
	s.Helper()
	cfg, err := pgx.ParseConfig(s.url)
	require.NoError(s, err)
	traced := new(tracer)
	cfg.Tracer = traced
	conn, err := pgx.ConnectConfig(s.Context(), cfg)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- scout.Run(ctx, conn) }()
	s.Cleanup(func() {
		cancel()
		require.ErrorIs(s, <-ended, context.Canceled)
		_ = conn.Close(context.WithoutCancel(ctx))
	})
	return traced
}

// next waits for a group in turn.
func (s *stage) next(turns *Turns) *Turn {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patient)
	defer cancel()
	turn := turns.Next(ctx)
	require.NotNil(s, turn, "no group found")
	return turn
}

func TestWalkFindsGroupsInEveryState(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(2, "ready", "held", "due", "paused", "idle")
	s.exec("DELETE FROM pgfifo.jobs WHERE group_id = 'idle'")
	s.exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour' WHERE group_id = 'due' AND id = 3")
	s.exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'paused')", queue)
	l := s.lane()
	h := s.claim(l, "held")
	turns, scout := s.scout(time.Second)
	require.NoError(t, scout.Walk(t.Context(), s.session().Conn))

	require.Equal(t, int64(1), turns.known[group("ready")].head)
	require.Len(t, turns.known, 3)
	require.InDelta(t, time.Hour, turns.Due(), float64(time.Minute))
	xids, unknown := turns.Held()
	require.Empty(t, unknown)
	require.Equal(t, one[string](s, "SELECT backend_xid::text FROM pg_stat_activity WHERE pid = $1", l.pg().PID()), fmt.Sprint(xids[0]))
	require.Equal(t, []string{"ready"}, drained(turns))

	// Free again, the one above the finished job.
	s.end(l, succeed(h)...)
	require.NoError(t, scout.checkHeld(t.Context(), s.session().Conn))
	require.Equal(t, []string{"held"}, drained(turns))
	require.Zero(t, turns.Look().Held)
}

func TestScoutAnnouncesWhatIsFreed(t *testing.T) {
	t.Parallel()
	for name, free := range map[string]func(*stage, *Lane, *Hold){
		"terminated": func(s *stage, l *Lane, _ *Hold) { s.terminate(l.pg().PID()) },
		"given back": func(s *stage, l *Lane, _ *Hold) { s.end(l) },
		"settled":    func(s *stage, l *Lane, h *Hold) { s.end(l, succeed(h)...) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.enqueue(2, "a")
			l := s.lane()
			h := s.claim(l, "a")
			turns, scout := s.scout(time.Hour) // not by walking
			s.run(scout)
			got := make(chan *Turn)
			go func() { got <- turns.Next(t.Context()) }()
			s.until(func() bool { return turns.Look().Held == 1 })
			free(s, l, h)
			require.Equal(t, "a", (<-got).GroupID)
		})
	}
}

// A claim that missed tells nothing of who holds the group. The scout looks.
func TestScoutLooksAtMissedGroups(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	s.exec("DELETE FROM pgfifo.queue_groups")
	l := s.lane()
	turns, scout := s.scout(time.Hour)
	scout.walked = time.Now() // it has no reason to walk
	scout.gap = time.Hour
	turns.Announce(group("a"), 1)
	turn := turns.TryNext()
	h, _, err := l.Step(t.Context(), nil, turn)
	require.NoError(t, err)
	require.Nil(t, h, "its group has no row")
	s.end(l)
	turns.Done(turn, Outcome{Missed: true})
	s.run(scout)
	require.Equal(t, "a", s.next(turns).GroupID)
	require.NotNil(t, s.claim(l, "a"))
}

// A snapshot ends with the latest transaction that has ended. That of the newest holder is beyond it, for as long as
// nothing else happens on the server: its group must not be tried again and again meanwhile.
func TestNewestTransactionHolds(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	holder := s.lane()
	s.claim(holder, "a")
	turns, scout := s.scout(time.Hour)
	conn := s.session().Conn
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Nil(t, turns.TryNext())
	turns.Done(&Turn{Key: group("b")}, Outcome{Missed: true})
	require.NoError(t, scout.checkHeld(t.Context(), conn))
	xids, unknown := turns.Held()
	require.Len(t, xids, 1)
	require.Empty(t, unknown)
	s.terminate(holder.pg().PID())
	require.NoError(t, scout.checkHeld(t.Context(), conn))
	require.Equal(t, []string{"a"}, drained(turns))
}

// A MultiXact in a head's xmax looks like a transaction that is yet to come. It holds nothing up.
func TestLockersOfHeadsAreNotHolders(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	for range 2 {
		c := s.session()
		c.do("BEGIN; SELECT FROM pgfifo.jobs FOR KEY SHARE")
	}
	turns, scout := s.scout(time.Hour)
	require.NoError(t, scout.Walk(t.Context(), s.session().Conn))
	require.Equal(t, []string{"a"}, drained(turns))
	require.Equal(t, int64(1), s.claim(s.lane(), "a").ID)
}

func TestScoutFindsWhatIsDue(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	s.exec("UPDATE pgfifo.jobs SET run_at = clock_timestamp() + interval '300 milliseconds'")
	turns, scout := s.scout(time.Hour)
	s.run(scout)
	require.Equal(t, "a", s.next(turns).GroupID)
	require.True(t, s.claim(s.lane(), "a").Ready())
}

func TestScoutHurries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	turns, scout := s.scout(time.Hour)
	scout.walked, scout.gap = time.Now(), time.Hour
	s.run(scout)
	s.enqueue(1, "a")
	require.Nil(t, turns.TryNext())
	scout.Hurry()
	require.Equal(t, "a", s.next(turns).GroupID)
}

// crowd enqueues one job to each of n groups, g00001 and so on.
func (s *stage) crowd(n int) {
	s.Helper()
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) "+
		"SELECT $1, 'g' || to_char(i, 'FM00000'), '' FROM generate_series(1, $2::integer) i", queue, n)
}

func TestWalkReachesEveryGroup(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	n := 2*walkBatch + 7
	s.crowd(n)
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('r', 'z', ''), ('not mine', 'a', '')")
	turns, scout := s.scout(time.Second, queue, "empty", "r")
	require.NoError(t, scout.Walk(t.Context(), s.session().Conn))
	require.True(t, turns.roomy)
	require.Len(t, drained(turns), n+1)
	require.Equal(t, n+1, one[int](s, "SELECT count(*) FROM pgfifo.queue_groups"))
	require.Zero(t, scout.queue)
	require.Empty(t, scout.after)
}

// A line shorter than the groups are many: those behind are found as it runs low, and none twice before.
func TestWalkGoesOnWhenTheLineRunsLow(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const n = 100
	s.crowd(n)
	turns := NewTurns(16)
	s.run(NewScout(turns, []string{queue}, s.name, time.Hour))
	seen := make(map[string]bool)
	for range n {
		turn := s.next(turns)
		require.False(t, seen[turn.GroupID], turn.GroupID)
		seen[turn.GroupID] = true
		s.exec("DELETE FROM pgfifo.jobs WHERE group_id = $1", turn.GroupID)
		turns.Done(turn, Outcome{Finished: 1})
	}
}

// With more groups than the line holds, and lanes that are always busy, one walk follows the other: none waits for Poll.
func TestWalksFollowEachOtherWhileGroupsWaitOutside(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const n, rounds = 60, 2*quantum + 1
	for range rounds {
		s.crowd(n)
	}
	turns := NewTurns(16)
	s.run(NewScout(turns, []string{queue}, s.name, time.Hour))
	s.until(func() bool { return !turns.Look().Roomy }) // it is full
	worked := make(map[string]int)
	for range n * rounds {
		var turn *Turn
		s.until(func() bool { turn = turns.TryNext(); return turn != nil }) // no lane ever waits
		s.exec("DELETE FROM pgfifo.jobs WHERE id = (SELECT min(id) FROM pgfifo.jobs WHERE group_id = $1)", turn.GroupID)
		worked[turn.GroupID]++
		turns.Done(turn, Outcome{Finished: int64(worked[turn.GroupID]), More: worked[turn.GroupID] < rounds})
	}
	for _, count := range worked {
		require.Equal(t, rounds, count)
	}
}

// However many groups stand still, the one behind them is found.
func TestScoutPassesBlockedGroups(t *testing.T) {
	t.Parallel()
	const n = walkBatch + 89
	for name, block := range map[string]func(*stage){
		"paused": func(s *stage) {
			s.exec("INSERT INTO pgfifo.pauses (queue, group_id) SELECT queue, group_id FROM pgfifo.jobs WHERE id < $1", n)
		},
		"delayed": func(s *stage) {
			s.exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour' WHERE id < $1", n)
		},
		"held": func(s *stage) {
			c := s.session()
			c.do(beginSQL)
			c.do("SELECT FROM pgfifo.jobs WHERE id < $1 FOR NO KEY UPDATE", n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.crowd(n)
			block(s)
			turns := NewTurns(64)
			s.run(NewScout(turns, []string{queue}, s.name, 100*time.Millisecond))
			require.Equal(t, fmt.Sprintf("g%05d", n), s.next(turns).GroupID)
		})
	}
}

// An idle worker asks about twice a second per queue, though its lanes wait and others hold groups.
func TestIdleScoutIsQuiet(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	turns, scout := s.scout(time.Second, queue, "r")
	traced := s.run(scout)
	for range 3 {
		go turns.Next(t.Context())
	}
	s.until(func() bool { return traced.queries.Load() >= 1+2*9 }) // it has walked in vain, and slowed down
	const span = 3 * time.Second
	before := traced.queries.Load()
	window := time.NewTimer(span)
	defer window.Stop()
	<-window.C
	perSecond := float64(traced.queries.Load()-before) / span.Seconds()
	require.Less(t, perSecond, 2*2+1.0)
	require.Positive(t, perSecond, "it looks")
}

func TestScoutEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	turns, scout := s.scout(10 * time.Millisecond)
	conn := s.session().Conn
	ended := make(chan error, 1)
	pid := conn.PgConn().PID()
	go func() { ended <- scout.Run(t.Context(), conn) }()
	s.enqueue(1, "a")
	s.next(turns)
	s.terminate(pid)
	require.ErrorContains(t, <-ended, "groups: look for candidates")
}

// Where groups are short the walk reads job after job, where they are long it skips; either way it finds every head once.
func TestWalkThroughShortAndLongGroups(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	const n = 2*walkBatch + 7
	s.crowd(n)
	s.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, 'g' || to_char(g, 'FM00000'), '' FROM generate_series(300, 420) g, generate_series(1, 100)`, queue)
	turns, scout := s.scout(time.Second)
	heads := one[int64](s, "SELECT sum(id)::bigint FROM (SELECT min(id) AS id FROM pgfifo.jobs GROUP BY group_id) h")
	skipped := 0
	conn := s.session().Conn
	for more := true; more; more = scout.midway() {
		if scout.skip {
			skipped++
		}
		require.NoError(t, scout.walk(t.Context(), conn, walkBatch))
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
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	turns, scout := s.scout(time.Hour)
	conn := s.session().Conn
	_, err := scout.step(t.Context(), conn)
	require.NoError(t, err)
	scout.took = time.Minute
	wait, err := scout.step(t.Context(), conn)
	require.NoError(t, err)
	require.Positive(t, wait)
	require.LessOrEqual(t, wait, maxRest)
	require.Positive(t, scout.nextWalk(turns.Look())-time.Minute, "no walk for long")
}

// The first walk finds a whole batch of groups at once, and does not make the others wait for the busy lanes' sake.
func TestTheFirstWalkHurries(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.crowd(2*walkBatch + 7)
	s.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, 'g' || to_char(g, 'FM00000'), '' FROM generate_series(0, 40) g, generate_series(1, 100)`, queue)
	turns, scout := s.scout(time.Second)
	conn := s.session().Conn
	walk := func() View {
		require.NoError(t, scout.walk(t.Context(), conn, walkBatch))
		require.True(t, scout.midway())
		scout.batch = time.Minute // what the next one would take
		return turns.Look()
	}
	view := walk()
	require.False(t, view.Idle)
	require.Equal(t, turns.limit-walkBatch, view.Room)
	require.LessOrEqual(t, scout.nextWalk(view), time.Duration(0))

	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Greater(t, scout.nextWalk(walk()), time.Minute, "later ones leave the lanes most of the server")
}

func TestRareWalks(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0:                       0,
		time.Millisecond:        20 * time.Millisecond,
		300 * time.Millisecond:  6 * time.Second,
		500 * time.Millisecond:  7500 * time.Millisecond,
		time.Second:             7 * time.Second,
		1900 * time.Millisecond: 7600 * time.Millisecond,
		10 * time.Second:        40 * time.Second,
	} {
		require.Equal(t, want, rare(took), took)
		if took < 2*time.Second {
			require.Less(t, rare(took)+took, 10*time.Second)
		}
	}
}

// A server that has lost its newest commits may never have heard of the transaction that held a group.
func TestHolderThatTheServerHasForgotten(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "held")
	s.enqueue(1, "other")
	future := one[int64](s, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 100000000")
	turns, scout := s.scout(10 * time.Millisecond)
	turns.Offer([]Candidate{{Key: group("held"), ID: 1, Holder: future}})
	s.run(scout)
	got := map[string]bool{}
	for range 2 {
		got[s.next(turns).GroupID] = true
	}
	require.Equal(t, map[string]bool{"held": true, "other": true}, got)
}
