package schedule

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// scout returns Turns and the scout that fills them, not running.
func (s *stage) scout(poll time.Duration, queues ...string) (*Turns, *Scout) {
	turns := NewTurns(4096)
	if len(queues) == 0 {
		queues = []string{queue}
	}
	return turns, NewScout(turns, queues, s.Schema, poll)
}

// run lets the scout run until the test ends.
func (s *stage) run(scout *Scout) *pgtest.Tracer {
	s.Helper()
	cfg, err := pgx.ParseConfig(s.URL)
	require.NoError(s, err)
	traced := new(pgtest.Tracer)
	cfg.Tracer = traced
	conn, err := pgx.ConnectConfig(s.Context(), cfg)
	require.NoError(s, err)
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	clock := make(chan struct{})
	go func() { scout.Turns.Run(ctx); close(clock) }()
	go func() { ended <- scout.Run(ctx, conn) }()
	s.Cleanup(func() {
		cancel()
		<-clock
		require.ErrorIs(s, <-ended, context.Canceled)
		_ = conn.Close(context.WithoutCancel(ctx))
	})
	return traced
}

// scouting returns Turns for so many groups, and lets a scout fill them until the test ends.
func (s *stage) scouting(limit int, poll time.Duration, queues ...string) *Turns {
	s.Helper()
	turns := NewTurns(limit)
	s.run(NewScout(turns, queues, s.Schema, poll))
	return turns
}

// stepUntil has a scout that does not run step until a condition holds.
func (s *stage) stepUntil(scout *Scout, conn *pgx.Conn, cond func() bool) {
	s.Helper()
	s.Until(func() bool {
		_, err := scout.step(s.Context(), conn)
		require.NoError(s, err)
		return cond()
	})
}

// walked returns what a walk has put in line.
func (s *stage) walked() *Turns {
	s.Helper()
	turns, scout := s.scout(time.Second)
	require.NoError(s, scout.Walk(s.Context(), s.Session().Conn))
	return turns
}

// next waits for a group in turn.
func (s *stage) next(turns *Turns) *Turn {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), pgtest.Patient)
	defer cancel()
	turn := turns.Next(ctx)
	require.NotNil(s, turn, "no group found")
	return turn
}

func TestScoutAnnouncesWhatIsFreed(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*stage, *lease.Lane, *lease.Hold){
		"terminated": func(s *stage, l *lease.Lane, _ *lease.Hold) { s.Terminate(l.Conn().PgConn().PID()) },
		"given back": func(s *stage, l *lease.Lane, _ *lease.Hold) { s.end(l) },
		"settled":    func(s *stage, l *lease.Lane, h *lease.Hold) { s.end(l, succeed(h)...) },
	}, func(t *testing.T, free func(*stage, *lease.Lane, *lease.Hold)) {
		s := newStage(t)
		s.Enqueue(2, "a")
		l := s.lane()
		h := s.claim(l, "a")
		turns, scout := s.scout(time.Hour) // not by walking
		s.run(scout)
		got := make(chan *Turn)
		go func() { got <- turns.Next(t.Context()) }()
		s.Until(func() bool { return turns.View().Watched == 1 })
		free(s, l, h)
		require.Equal(t, "a", (<-got).GroupID)
	})
}

// A connection that breaks when the scout looks at held groups must not cost them their place for a whole Poll.
func TestScoutOnANewConnection(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	turns, scout := s.scout(time.Hour)
	turns.Announce(group("a"), 1)
	turns.Done(turns.TryNext(), Outcome{Missed: true})
	scout.walks[0].walked, scout.gap = time.Now(), time.Hour
	broken := s.Session()
	require.NoError(t, broken.Close(t.Context()))
	require.Error(t, scout.Run(t.Context(), broken.Conn))
	s.run(scout)
	require.Equal(t, "a", s.next(turns).GroupID)
}

// A claim that missed tells nothing of who holds the group. The scout looks.
func TestScoutLooksAtMissedGroups(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec("DELETE FROM pgfifo.queue_groups")
	l := s.lane()
	turns, scout := s.scout(time.Hour)
	scout.walks[0].walked = time.Now() // it has no reason to walk
	scout.gap = time.Hour
	turns.Announce(group("a"), 1)
	turn := turns.TryNext()
	h := s.step(l, nil, turn.Request())
	require.Nil(t, h, "its group has no row")
	s.end(l)
	turns.Done(turn, Outcome{Missed: true})
	s.run(scout)
	require.Equal(t, "a", s.next(turns).GroupID)
	require.NotNil(t, s.claim(l, "a"))
}

// watching returns a scout that has walked, found that others hold all groups, and looked at those once.
func (s *stage) watching() (*Turns, *Scout, *pgx.Conn) {
	s.Helper()
	turns, scout := s.scout(time.Hour)
	conn := s.Session().Conn
	require.NoError(s, scout.Walk(s.Context(), conn))
	require.Nil(s, turns.TryNext())
	turns.Done(&Turn{Key: group("another")}, Outcome{Missed: true})
	require.NoError(s, scout.checkWatched(s.Context(), conn, View{}))
	return turns, scout, conn
}

// A snapshot ends with the latest transaction that has ended. That of the newest holder is beyond it, for as long as
// nothing else happens on the server: its group must not be tried again and again meanwhile.
func TestNewestTransactionHolds(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	holder := s.lane()
	s.claim(holder, "a")
	turns, scout, conn := s.watching()
	xids, unknown := turns.watched.holders(turns.poll)
	require.Len(t, xids, 1)
	require.Empty(t, unknown)
	s.Terminate(holder.Conn().PgConn().PID())
	require.NoError(t, scout.checkWatched(t.Context(), conn, View{}))
	require.Equal(t, []string{"a"}, drained(turns))
}

// A group is known to be free again when its session has let it go, and lives on.
func TestReleasedBySession(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	_, err := s.Session().Conn.Exec(t.Context(), "SELECT pg_advisory_lock(4711)")
	require.NoError(t, err)
	s.Exec("INSERT INTO pgfifo.queue_groups (queue, group_id, session, job, attempt) " +
		"SELECT queue, group_id, 4711, id, 1 FROM pgfifo.jobs " +
		"ON CONFLICT (queue, group_id) DO UPDATE SET session = EXCLUDED.session, job = EXCLUDED.job, attempt = 1")
	turns, scout, conn := s.watching()
	require.Nil(t, turns.TryNext())
	s.Exec("UPDATE pgfifo.queue_groups SET session = NULL WHERE group_id = 'b'")
	s.Until(func() bool {
		require.NoError(t, scout.checkWatched(t.Context(), conn, View{}))
		keys, _ := turns.watched.kept()
		return len(keys) == 1
	})
	require.Equal(t, []string{"b"}, drained(turns))
}

// A MultiXact in a head's xmax looks like a transaction that is yet to come. It holds nothing up.
func TestLockersOfHeadsAreNotHolders(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	for range 2 {
		c := s.Session()
		c.Do("BEGIN; SELECT FROM pgfifo.jobs FOR KEY SHARE")
	}
	turns := s.walked()
	require.Equal(t, []string{"a"}, drained(turns))
	require.Equal(t, int64(1), s.claim(s.lane(), "a").ID)
}

func TestScoutFindsWhatIsDue(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec("UPDATE pgfifo.jobs SET run_at = clock_timestamp() + interval '300 milliseconds'")
	turns, scout := s.scout(time.Hour)
	s.run(scout)
	l, turn := s.lane(), s.next(turns)
	h := s.claim(l, "a")
	for !h.Ready() { // the server was slow to say when it is due: a moment too soon
		s.end(l)
		turns.Done(turn, Outcome{DueIn: h.DueIn})
		turn = s.next(turns)
		h = s.claim(l, "a")
	}
	require.Equal(t, group("a"), turn.Key)
}

func TestScoutHurries(t *testing.T) {
	s := newStage(t)
	turns, scout := s.scout(time.Hour)
	scout.walks[0].walked, scout.gap = time.Now(), time.Hour
	s.run(scout)
	s.Enqueue(1, "a")
	require.Nil(t, turns.TryNext())
	scout.Hurry()
	require.Equal(t, "a", s.next(turns).GroupID)
}

// However many groups stand still, the one behind them is found.
func TestScoutPassesBlockedGroups(t *testing.T) {
	const n = tuning.Rows + 89
	pgtest.OverAll(t, map[string]func(*stage){
		"paused": func(s *stage) {
			s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) SELECT queue, group_id FROM pgfifo.jobs WHERE id < $1",
				n)
		},
		"delayed": func(s *stage) {
			s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour' WHERE id < $1", n)
		},
		"held": func(s *stage) {
			c := s.Session()
			c.Do("BEGIN")
			c.Do("SELECT FROM pgfifo.jobs WHERE id < $1 FOR NO KEY UPDATE", n)
		},
	}, func(t *testing.T, block func(*stage)) {
		s := newStage(t)
		s.Crowd(n)
		block(s)
		turns := s.scouting(64, 100*time.Millisecond, queue)
		require.Equal(t, fmt.Sprintf("g%05d", n), s.next(turns).GroupID)
	})
}

// An idle worker asks about twice a second per queue, though its lanes wait and others hold groups.
func TestIdleScoutIsQuiet(t *testing.T) {
	s := newStage(t)
	turns, scout := s.scout(time.Second, queue, "r")
	traced := s.run(scout)
	for range 3 {
		go turns.Next(t.Context())
	}
	s.Until(func() bool { return traced.Queries.Load() >= 1+2*9 }) // it has walked in vain, and slowed down
	const span = 3 * time.Second
	before := traced.Queries.Load()
	window := time.NewTimer(span)
	defer window.Stop()
	<-window.C
	perSecond := float64(traced.Queries.Load()-before) / span.Seconds()
	require.Less(t, perSecond, 8.0)
	require.Positive(t, perSecond, "it looks")
}

// While the line is full there is nothing to look for. The scout asks whether the server is there all the same.
func TestScoutWithAFullLineAsks(t *testing.T) {
	s := newStage(t)
	s.Crowd(8)
	turns := NewTurns(4)
	scout := NewScout(turns, []string{queue}, s.Schema, time.Millisecond)
	require.Zero(t, scout.Looked())
	s.run(scout)
	s.Until(func() bool { return turns.View().Room <= 0 })
	for range 2 { // the first look may be the one that filled the line
		before := scout.Looked()
		s.Until(func() bool { return scout.Looked().After(before) })
		require.WithinDuration(t, time.Now(), scout.Looked(), scout.Bound())
	}
}

// So it does at once on a new connection, however seldom it looks.
func TestScoutAsksOnANewConnection(t *testing.T) {
	s := newStage(t)
	_, scout := s.scout(2 * pgtest.Patient)
	scout.duties = nil // none is due
	before := time.Now()
	scout.looked.Store(&before)
	s.run(scout)
	s.Until(func() bool { return scout.Looked().After(before) })
}

// A look that fails is none, so a worker whose looks the server refuses is not ready.
func TestFailedLookIsNone(t *testing.T) {
	s := newStage(t)
	_, scout := s.scout(time.Millisecond)
	conn := s.Session()
	conn.Do("ALTER TABLE pgfifo.jobs RENAME TO away")
	_, err := scout.step(t.Context(), conn.Conn)
	require.ErrorContains(t, err, "42P01")
	require.Zero(t, scout.Looked())
	conn.Do("ALTER TABLE pgfifo.away RENAME TO jobs")
	_, err = scout.step(t.Context(), conn.Conn)
	require.NoError(t, err)
	require.NotZero(t, scout.Looked())
}

func TestScoutEndsWithItsConnection(t *testing.T) {
	s := newStage(t)
	turns, scout := s.scout(10 * time.Millisecond)
	conn := s.Session().Conn
	ended := make(chan error, 1)
	pid := conn.PgConn().PID()
	go func() { ended <- scout.Run(t.Context(), conn) }()
	s.Enqueue(1, "a")
	s.next(turns)
	s.Terminate(pid)
	require.ErrorContains(t, <-ended, "schedule: look ")
}

// A server that has lost its newest commits may never have heard of the transaction that held a group.
func TestHolderThatTheServerHasForgotten(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "held")
	s.Enqueue(1, "other")
	future := pgtest.One[int64](s.DB, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 100000000")
	turns, scout := s.scout(10 * time.Millisecond)
	turns.Offer([]Candidate{{Key: group("held"), ID: 1, Holder: future}})
	s.run(scout)
	got := map[string]bool{}
	for range 2 {
		got[s.next(turns).GroupID] = true
	}
	require.Equal(t, map[string]bool{"held": true, "other": true}, got)
}

// An operator may park a job for good, and neither stops its queue by that nor makes it run.
func TestJobsInTheFarFuture(t *testing.T) {
	times := []string{"infinity", "9999-12-31", "2400-01-01", "290000-01-01"}
	pgtest.OverEach(t, times, func(t *testing.T, at string) {
		s := newStage(t)
		s.Enqueue(1, "a", "b")
		s.Exec("UPDATE pgfifo.jobs SET run_at = $1::text::timestamptz WHERE group_id = 'a'", at)
		turns, scout := s.scout(time.Second)
		require.NoError(t, scout.Walk(t.Context(), s.Session().Conn))
		require.Equal(t, "b", turns.TryNext().GroupID)
		require.Nil(t, turns.TryNext())
		turns.Done(&Turn{Key: group("a")}, Outcome{Missed: true})
		require.NoError(t, scout.checkWatched(t.Context(), s.Session().Conn, View{}))
		require.Nil(t, turns.TryNext())
		h := s.claim(s.lane(), "a")
		require.False(t, h.Ready())
		require.Greater(t, h.DueIn, 24*time.Hour)
	})
}

// The scout's statements are transactions of their own, with the defaults of its session.
func TestScoutUnderContraryDefaults(t *testing.T) {
	pgtest.OverEach(t, pgtest.ContraryDefaults, func(t *testing.T, setting string) {
		s := newStage(t)
		s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
		s.Alter(setting)
		turns := NewTurns(10)
		conn, err := s.dialer().Connect(t.Context())
		require.NoError(t, err)
		defer conn.Close(context.WithoutCancel(t.Context())) //nolint:errcheck // the test is over
		require.NoError(t, NewScout(turns, []string{queue}, s.Schema, time.Second).Walk(t.Context(), conn))
		require.Equal(t, "a", turns.TryNext().GroupID)
		require.Equal(t, int64(1), s.claim(s.lane(), "a").ID)
	})
}
