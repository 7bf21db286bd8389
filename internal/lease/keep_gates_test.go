package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// PostgreSQL locks a row that was changed since a statement began, looks at it again, and keeps it locked also if it
// does not return it. So that a group's row is ours does not say that it was free, nor that it bears our token.
func TestLockedIsNotFree(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec("UPDATE pgfifo.queue_groups SET session = 5, token = 7, job = 1, attempt = 1 WHERE group_id = 'a'")
	tx := s.begin()
	rows := func(sql string, args ...any) int {
		t.Helper()
		tag, err := tx.Exec(t.Context(), s.Schema.Qualify(sql), args...)
		require.NoError(t, err)
		return int(tag.RowsAffected())
	}
	require.Equal(t, 1, rows("SELECT FROM pgfifo.queue_groups WHERE group_id = 'a' FOR NO KEY UPDATE"))

	one, groups, none := []string{queue}, []string{"a"}, []int64{0}
	take := func(token, session int64) int {
		return rows(statement("keep_take_jobs"), one, groups, []int64{1}, []int64{token}, []int64{session})
	}
	require.Zero(t, take(6, 5), "that of a former holder")
	require.Zero(t, take(7, 4), "that of another session, before a restore")
	require.Equal(t, 1, take(7, 5))

	claims := map[string]func() int{
		"for a session": func() int {
			return rows(statement("keep_claim"), one, groups, none, maxBatchBytes, 9, []bool{false}, []bool{false})
		},
		"of many":     func() int { return rows(statement("claim_many"), queue, groups, none, maxBatchBytes) },
		"with a slot": func() int { return rows(withSlot.Replace(statement("claim")), queue, "a", 0) },
	}
	for name, claim := range claims {
		require.Zero(t, claim(), name)
	}
	require.Equal(t, 1, rows("UPDATE pgfifo.queue_groups SET session = NULL WHERE group_id = 'a'"))
	require.Equal(t, 1, rows("SELECT FROM pgfifo.queue_groups WHERE group_id = 'a' FOR NO KEY UPDATE"))
	for _, name := range []string{"with a slot", "of many", "for a session"} { // which is the last: it takes the group
		require.Equal(t, 1, claims[name](), name)
	}
}

// A former holder that waits for the claim that takes its place settles nothing.
func TestTakeBehindAClaim(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec("UPDATE pgfifo.queue_groups SET session = 5, token = 7, job = 1, attempt = 1 WHERE group_id = 'a'")
	tx := s.begin()
	s.do(tx, "UPDATE pgfifo.queue_groups SET token = 8 WHERE group_id = 'a'")

	l := s.lane()
	hold := &Hold{Held: Held{Key: group("a"), ID: 1, token: 7, session: 5}}
	taken := beside(func() error { return l.take(t.Context(), hold, new(Loan), waitForever) })
	s.Until(func() bool {
		const waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1 AND NOT granted)"
		return pgtest.One[bool](s.DB, waits, l.stream.pid)
	})
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-taken, ErrNotHeld)
	hold.token, hold.session = 8, 6
	require.ErrorIs(t, l.take(t.Context(), hold, new(Loan), waitBriefly), ErrNotHeld, "another session's")
	hold.session = 5
	require.NoError(t, l.take(t.Context(), hold, new(Loan), waitBriefly))
	s.end(l, append(succeed(hold), endCall([]*Held{&hold.Held}, []int64{1}))...)
}

// No more slots are taken than are asked for, whatever the tables had when the statement was planned.
func TestSlotsAreAsManyAsAsked(t *testing.T) {
	s := newStage(t)
	for _, before := range []int{0, 1, 4} {
		s.again(t)
		if before > 0 {
			s.limit(before)
		}
		s.Exec("ANALYZE pgfifo.slots")
		c, err := s.dialer(Bounds{}).Connect(t.Context())
		require.NoError(t, err)
		_, err = c.Prepare(t.Context(), "take", s.Schema.Qualify(statement("keep_slots")))
		require.NoError(t, err)
		for _, n := range []int{1, 2, 3} {
			tx := s.inside(c)
			tag, err := tx.Exec(t.Context(), "take", queue, n, int64(9))
			require.NoError(t, err)
			require.LessOrEqual(t, tag.RowsAffected(), int64(n))
			require.NoError(t, tx.Rollback(t.Context()))
			s.limit(4)
		}
		require.NoError(t, c.Close(t.Context()))
	}
}

// A slot that was taken for a claim which has missed is free at once, however long what could not be released waits.
func TestUnusedSlotIsFreeAtOnce(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.limit(1)
	k := s.keeperOf(s.dialer(Bounds{Heartbeat: time.Hour, Silence: 2 * time.Hour, ServerSilence: 9 * time.Hour}))
	k.session().tries = 1 << 20 // so it rests half an hour
	operator := s.Session()
	operator.Do("BEGIN")
	operator.Do("SELECT FROM pgfifo.queue_groups FOR UPDATE")
	b, hold := s.borrowFor(k, &Request{Key: group("a"), Slot: true})
	require.Nil(t, hold)
	require.NotEqual(t, OverLimit, b.Missed())
	s.Until(func() bool {
		return pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL") == 0
	})
}

// A group that the server does not let go is asked for less and less often, and does not delay the slots that claims
// give back.
func TestRefusedReleaseRestsWhileClaimsMiss(t *testing.T) {
	s := newStage(t)
	s.Exec("CREATE SEQUENCE tries")
	s.refuse("PERFORM nextval('tries'); "+notThis, letGo, "bad")
	s.Enqueue(1, "bad")
	k := s.keeper()
	s.giveBack(k, "bad")
	s.limit(1)
	b, err := k.Borrow(t.Context())
	require.NoError(t, err)
	const claims = 100
	for range claims {
		hold := s.step(b, nil, &Request{Key: group("nothing"), Slot: true})
		require.Nil(t, hold)
		s.Until(func() bool {
			return pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL") == 0
		})
	}
	require.Less(t, pgtest.One[int](s.DB, "SELECT last_value FROM tries"), claims/2)
}
