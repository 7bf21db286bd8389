package lease

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// fence runs a handler that asks for a token.
func (s *stage) fence(h *Hold) (token int64, err error) {
	s.Helper()
	require.NoError(s, h.loan.lane.Lend(s.Context(), func() { token, err = h.loan.Fence(s.Context(), h.Key) }))
	return token, err
}

// claimXID runs a handler that gets as far as knowing its claim.
func (s *stage) claimXID(h *Hold) (xid string) {
	s.Helper()
	require.NoError(s, h.loan.lane.Lend(s.Context(), func() {
		var err error
		xid, err = h.loan.claimXID(s.Context(), h.Key)
		require.NoError(s, err)
	}))
	return xid
}

// former returns a lane that has claimed a group, and the claim; known says that the group has a token.
func (s *stage) former(known bool) (l *Lane, claim string) {
	s.Helper()
	s.Enqueue(2, "a")
	l = s.lane()
	if known {
		_, err := s.fence(s.claim(l, "a"))
		require.NoError(s, err)
		s.end(l)
	}
	return l, s.claimXID(s.claim(l, "a"))
}

// draw begins the second half of a Fence on a connection of its own.
func draw(c *pgtest.Session, id, xid string) (token <-chan int64) {
	c.Helper()
	ch := make(chan int64, 1)
	c.Go(func() {
		var token int64
		err := c.QueryRow(context.WithoutCancel(c.Context()), c.Schema.Qualify(statement("fence")), queue, id, xid).
			Scan(&token)
		if err != nil {
			require.ErrorIs(c, err, pgx.ErrNoRows)
			token = -1
		}
		ch <- token
	})
	return ch
}

func TestFenceGrowsWithEachClaim(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a", "b")
	a, b := s.lane(), s.lane()
	last := int64(0)
	for i := range 3 {
		h := s.claim(a, "a")
		var again int64
		require.NoError(t, a.Lend(t.Context(), func() {
			token, err := h.loan.Fence(t.Context(), h.Key)
			require.NoError(t, err)
			require.Greater(t, token, last)
			again, err = h.loan.Fence(t.Context(), h.Key)
			require.NoError(t, err)
			require.Equal(t, token, again)
		}))
		last = again
		if i == 1 {
			require.Equal(t, []string{"a", "a/3"}, s.Locked())
		}
		_, err := s.fence(s.claim(b, "b")) // another group's do not matter
		require.NoError(t, err)
		s.end(b)
		s.end(a, succeed(h)...)
	}
	require.Equal(t, last, pgtest.One[int64](s.DB, "SELECT token FROM pgfifo.fences WHERE group_id = 'a'"))
}

func TestFenceOfABatch(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	l := s.lane()
	h, _ := s.together(l, "a", "b")
	require.Len(t, h.Rest, 1)
	require.NoError(t, l.Lend(t.Context(), func() {
		first, err := h.loan.Fence(t.Context(), h.Key)
		require.NoError(t, err)
		second, err := h.loan.Fence(t.Context(), h.Rest[0].Key)
		require.NoError(t, err)
		require.NotEqual(t, first, second)
		_, err = h.loan.Fence(t.Context(), group("c"))
		require.ErrorIs(t, err, ErrLost, "not held")
	}))
	require.Equal(t, int64(2), pgtest.One[int64](s.DB, "SELECT count(*) FROM pgfifo.fences"))
}

// Whatever a former holder was doing when it lost the group, it gets no token once there may be a new one.
func TestNoFenceForAFormerHolder(t *testing.T) {
	groups := map[string]bool{"first token of the group": false, "a later one": true}
	pgtest.OverAll(t, groups, func(t *testing.T, known bool) {
		s := newStage(t)
		frozen, old := s.former(known)
		next := s.lane()
		s.Terminate(frozen.pg().PID())

		// Its statement has begun when the next holder's token is not committed yet.
		h := s.claim(next, "a")
		xid := s.claimXID(h)
		rival := s.Session()
		rival.Do("BEGIN")
		var token int64
		err := rival.QueryRow(t.Context(), s.Schema.Qualify(statement("fence")), queue, "a", xid).Scan(&token)
		require.NoError(t, err)
		zombie := s.Session()
		late := draw(zombie, "a", old)
		s.Until(func() bool { return len(late) == 1 || s.Blocked(zombie.PgConn().PID()) })
		rival.Do("COMMIT")
		require.Equal(t, int64(-1), <-late)
		require.Equal(t, token, pgtest.One[int64](s.DB, "SELECT token FROM pgfifo.fences"))
	})
}

// Nor does it when nobody has asked since: its token would be higher than those of a holder whose row was collected.
func TestNoFenceBeforeTheNextHolder(t *testing.T) {
	s, l, h := held(t, 1)
	old := s.claimXID(h)
	s.Terminate(l.pg().PID())
	require.Equal(t, int64(-1), <-draw(s.Session(), "a", old))
	require.Zero(t, pgtest.One[int64](s.DB, "SELECT count(*) FROM pgfifo.fences"))
}

// The claim may be lost while its statement waits for the row, or draws: that is looked at again behind both.
func TestFenceLooksAgainBehindTheDraw(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"to insert": false, "to update": true}, func(t *testing.T, known bool) {
		s := newStage(t)
		l, old := s.former(known)
		rival, zombie := s.Session(), s.Session()
		rival.Do("BEGIN")
		rival.Do(`INSERT INTO pgfifo.fences (queue, group_id) VALUES ($1, 'a')
			ON CONFLICT (queue, group_id) DO UPDATE SET token = DEFAULT`, queue)
		late := draw(zombie, "a", old)
		s.Until(func() bool { return s.Blocked(zombie.PgConn().PID()) })
		s.Terminate(l.pg().PID())
		rival.Do("COMMIT")
		require.Equal(t, int64(-1), <-late)
	})
}

// Between what the statement looked at first and its draw, a session may claim the group, whose token it draws itself.
func TestNoFenceAboveThatOfASession(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"to insert": false, "to update": true}, func(t *testing.T, known bool) {
		s := newStage(t)
		l, old := s.former(known)

		gate, zombie := s.Session(), s.Session()
		gate.Do(`CREATE FUNCTION pgfifo.slow_nextval(sequence regclass) RETURNS bigint LANGUAGE plpgsql AS $$
			BEGIN
				PERFORM pg_advisory_xact_lock(1);
				RETURN nextval(sequence);
			END $$`)
		gate.Do("ALTER TABLE pgfifo.fences ALTER token DROP IDENTITY")
		gate.Do("CREATE SEQUENCE pgfifo.fences_token_seq START 10")
		gate.Do("ALTER TABLE pgfifo.fences ALTER token SET DEFAULT pgfifo.slow_nextval('pgfifo.fences_token_seq')")
		gate.Do("SELECT pg_advisory_lock(1)")
		late := draw(zombie, "a", old)
		s.Until(func() bool { return s.Blocked(zombie.PgConn().PID()) })
		s.Terminate(l.pg().PID())
		s.borrow(s.keeper(), "a")
		gate.Do("SELECT pg_advisory_unlock(1)")
		require.Equal(t, int64(-1), <-late)
	})
}

func TestFenceOfAnotherTransaction(t *testing.T) {
	s, l, h := held(t, 1)
	require.NoError(t, l.Lend(t.Context(), func() { // it is the settling that would find out
		tx := s.pgxTx(h)
		_, err := tx.Conn().Exec(t.Context(), "COMMIT; BEGIN")
		require.NoError(t, err)
		_, err = h.loan.Fence(t.Context(), h.Key)
		require.ErrorIs(t, err, ErrLost)
	}))
	require.Zero(t, pgtest.One[int64](s.DB, "SELECT count(*) FROM pgfifo.fences"))
}

// A token that a crash could take back would be given out twice.
func TestFenceIsDurable(t *testing.T) {
	s, _, h := held(t, 1)
	xid := s.claimXID(h)
	c := s.Session()
	for set, want := range map[string]string{"off": "on", "local": "on", "on": "on", "remote_apply": "remote_apply"} {
		c.Do("BEGIN")
		c.Do("SET LOCAL synchronous_commit = " + set)
		require.Positive(t, <-draw(c, "a", xid))
		var got string
		require.NoError(t, c.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got))
		require.Equal(t, want, got)
		c.Do("ROLLBACK")
	}
}

func TestFenceNeedsAControlPool(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	d := s.dialer(Bounds{})
	d.Control = nil
	_, err := s.fence(s.claim(s.dial(d), "a"))
	require.ErrorIs(t, err, ErrNoControl)
}

// The wall clock may jump while a handler runs.
func TestRunningIsMonotonic(t *testing.T) {
	_, l, _ := held(t, 1)
	require.Zero(t, l.Running())
	before := time.Now()
	require.NoError(t, l.Lend(t.Context(), func() {
		require.Contains(t, l.wire.since.String(), " m=", "by the monotonic clock")
		require.Positive(t, l.Running())
		require.LessOrEqual(t, l.Running(), time.Since(before))
	}))
	require.Zero(t, l.Running())
}

// A server that has lost its newest commits may not know the claim.
func TestFenceOfAForgottenClaim(t *testing.T) {
	s, l, h := held(t, 1)
	require.NoError(t, l.Lend(t.Context(), func() {
		xid, err := h.loan.claimXID(t.Context(), h.Key)
		require.NoError(t, err)
		var token int64
		err = s.Pool.QueryRow(t.Context(), s.Schema.Qualify(statement("fence")), queue, "a", xid+"00000").Scan(&token)
		require.ErrorIs(t, fenceError(err, false), ErrLost)
	}))
}
