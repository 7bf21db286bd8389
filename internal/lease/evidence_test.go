package lease

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// lost claims a group and reports whether its last worker died with the job, and gives it back.
func (s *stage) lost(id string) bool {
	s.Helper()
	l := s.lane()
	s.claim(l, id)
	lost := s.found(l)
	s.end(l)
	return len(lost) > 0
}

// gone waits for the end of a session.
func (s *stage) gone(pid uint32) {
	s.Helper()
	s.Until(func() bool {
		return pgtest.One[bool](s.DB, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", pid)
	})
}

func TestLostIsToldOnce(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*stage, *Lane, *Hold){
		"terminated while idle": func(s *stage, l *Lane, _ *Hold) { s.Terminate(l.pg().PID()) },
		"connection cut": func(s *stage, l *Lane, _ *Hold) {
			pid := l.pg().PID()
			l.kill()
			s.gone(pid)
		},
		"after writes": func(s *stage, l *Lane, h *Hold) {
			s.do(s.pgxTx(h), "CREATE TABLE effects (v text)")
			s.Terminate(l.pg().PID())
		},
		"in the middle of a statement": func(s *stage, l *Lane, h *Hold) {
			tx := s.pgxTx(h)
			done := beside(func() error { _, err := tx.Exec(s.Context(), "SELECT pg_sleep(600)"); return err })
			s.Until(func() bool { return s.Active(l.pg().PID()) })
			s.Terminate(l.pg().PID())
			require.ErrorContains(s, <-done, "57P01")
		},
		"in the COMMIT of a success": func(s *stage, l *Lane, h *Hold) { dieInCommit(s, l, h, succeed(h)) },
		"in the COMMIT of a failure": func(s *stage, l *Lane, h *Hold) { dieInCommit(s, l, h, retryIn(h, 0)) },
		"idle_in_transaction_session_timeout": func(s *stage, l *Lane, _ *Hold) {
			pid := l.pg().PID()
			_, err := l.Conn().Exec(s.Context(), "SET LOCAL idle_in_transaction_session_timeout = 10")
			require.NoError(s, err)
			s.gone(pid)
		},
	}, func(t *testing.T, die func(*stage, *Lane, *Hold)) {
		s := newStage(t)
		s.Enqueue(1, "a", "b")
		require.False(t, s.lost("a"), "never claimed")
		require.False(t, s.lost("a"), "given back")
		l := s.lane()
		pid := l.pg().PID()
		die(s, l, s.claim(l, "a"))
		s.gone(pid)
		require.True(t, s.lost("a"))
		require.False(t, s.lost("a"), "once")
		require.False(t, s.lost("b"))
	})
}

// dieInCommit has the session die in the COMMIT that settles a job whose handler has written something.
func dieInCommit(s *stage, l *Lane, h *Hold, calls []Call) {
	s.Exec(`CREATE TABLE effects (v text);
		CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
		CREATE CONSTRAINT TRIGGER die AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
		EXECUTE FUNCTION die()`)
	require.NoError(s, l.Lend(s.Context(), func() { s.do(s.pgxTx(h), "INSERT INTO effects VALUES ('')") }))
	require.ErrorContains(s, s.unsettled(l, calls, nil), "57P01")
}

// A worker that lives commits, whatever it does with a job.
func TestWhatIsNotLost(t *testing.T) {
	operators := []string{
		"DELETE FROM pgfifo.jobs", "SELECT FROM pgfifo.jobs FOR UPDATE", "UPDATE pgfifo.jobs SET run_at = NULL",
	}
	pgtest.OverAll(t, map[string]func(*stage, *Lane, *Hold){
		"given back": func(s *stage, l *Lane, _ *Hold) { s.end(l) },
		"given back with a step": func(s *stage, l *Lane, _ *Hold) {
			s.claim(l, "b")
			s.end(l)
		},
		"retried": func(s *stage, l *Lane, h *Hold) { s.end(l, retryIn(h, 0)...) },
		"failed in a statement": func(s *stage, l *Lane, h *Hold) {
			require.Error(s, l.Lend(s.Context(), func() { _, _ = s.pgxTx(h).Exec(s.Context(), nonsense) }))
			require.NoError(s, l.Undo(s.Context()))
			s.end(l)
		},
		"a claim that missed while an operator looked": func(s *stage, l *Lane, _ *Hold) {
			s.end(l)
			for _, look := range operators {
				c := s.Session()
				c.Do("BEGIN; " + look)
				require.True(s, s.misses(l, "a"))
				c.Do("ROLLBACK")
				require.False(s, s.lost("a"), look)
			}
		},
		"an operator's look, rolled back": func(s *stage, l *Lane, _ *Hold) {
			s.end(l)
			for _, look := range operators {
				s.Session().Do("BEGIN; " + look + "; ROLLBACK")
				require.False(s, s.lost("a"), look)
			}
		},
		"an operator's UPDATE, terminated": func(s *stage, l *Lane, _ *Hold) {
			s.end(l)
			c := s.Session()
			c.Do("BEGIN; UPDATE pgfifo.jobs SET run_at = NULL")
			s.Terminate(c.PgConn().PID())
		},
		"a purge rolled back": func(s *stage, l *Lane, _ *Hold) {
			s.end(l)
			c, n, xid := s.Session(), 0, int64(0)
			c.Do("BEGIN")
			require.NoError(s, c.QueryRow(s.Context(), s.Statement("purge"), queue, nil).Scan(&n, &xid))
			require.Equal(s, 2, n)
			c.Do("ROLLBACK")
		},
	}, func(t *testing.T, leave func(*stage, *Lane, *Hold)) {
		s := newStage(t)
		s.Enqueue(1, "a", "b")
		l := s.lane()
		leave(s, l, s.claim(l, "a"))
		require.False(t, s.lost("a"))
		require.False(t, s.lost("b"))
	})
}

// Nor is a job lost whose settling failed while its worker lived, or that was claimed with a step that failed.
func TestFailedStepIsNotLost(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "b")
	l := s.lane()
	h := s.claim(l, "a")
	require.NoError(t, l.Lend(t.Context(), func() { s.do(s.pgxTx(h), "DELETE FROM pgfifo.jobs WHERE id = $1", h.ID) }))
	require.ErrorIs(t, s.unsettled(l, succeed(h), &Request{Key: group("b")}), ErrNotHeld)
	require.False(t, l.Closed())
	rows := l.claims.claim.rows
	require.Positive(t, cap(rows))
	for _, row := range rows[:cap(rows)] {
		require.Nil(t, row.Payload, "no payload is kept")
	}
	require.False(t, s.lost("b"), "and free")
}

// The claim behind a death may die as well, before it has the head. That hides nothing, nor does it make a crash of an
// operator's look.
func TestDeathBehindADeath(t *testing.T) {
	s, l, _ := held(t, 1)
	dies := func() {
		c := s.Session()
		c.Do("BEGIN")
		c.Do(statement("lock"), queue, "a")
		c.Do("ROLLBACK")
	}
	dies()
	s.end(l)
	dies()
	require.False(t, s.lost("a"), "no job was claimed")
	dies()
	s.Session().Do("BEGIN; SELECT FROM pgfifo.jobs FOR UPDATE; ROLLBACK")
	require.False(t, s.lost("a"), "an operator's look")

	l = s.lane()
	h := s.claim(l, "a")
	s.Terminate(l.pg().PID())
	dies()
	require.ErrorIs(t, l.Record(t.Context(), &h.Held, retryIn(h, 0)...), ErrNotHeld)
	require.True(t, s.lost("a"))
	require.False(t, s.lost("a"), "once")
}

// What the 32 bits of an xmax can be: this epoch's, the one's before, none's.
func TestEvidenceArithmetic(t *testing.T) {
	s := newStage(t)
	lost := func(job, group int64) bool {
		return slices.Contains(pgtest.Column[bool](s.DB, statement("evidence"), job, group), true)
	}
	next := pgtest.One[int64](s.DB, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
	for _, xid := range []int64{
		0, 1, 2, 3, 4, next + 1_000_000, math.MaxInt32, math.MaxInt32 + 1, math.MaxUint32 - 1, math.MaxUint32,
	} {
		require.False(t, lost(xid, xid), xid)
	}

	c := s.Session()
	begin := func() int64 {
		c.Do("BEGIN")
		var xid string
		require.NoError(t, c.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text").Scan(&xid))
		id, err := strconv.ParseInt(xid, 10, 64)
		require.NoError(t, err)
		return id
	}
	id := begin()
	require.False(t, lost(id, id), "in progress")
	c.Do("ROLLBACK")
	require.True(t, lost(id&math.MaxUint32, id&math.MaxUint32))
	later := begin()
	require.False(t, lost(id, later), "in progress")
	c.Do("ROLLBACK")
	require.True(t, lost(id, later))
	require.False(t, lost(later, id), "the group first")
	committed := begin()
	c.Do("COMMIT")
	require.False(t, lost(id, committed))
	last := begin()
	c.Do("ROLLBACK")
	require.False(t, lost(committed, last))
}

// As it will be after the first wraparound, four billion transactions from now.
func TestEvidenceEpochs(t *testing.T) {
	s := newStage(t)
	_, from, _ := strings.Cut(statement("evidence"), "AS lost")
	sql := pgtest.Mutate(t, "SELECT w.job"+from, "pg_snapshot_xmax(pg_current_snapshot())::text::bigint", "$3::bigint")
	const epoch = 1 << 32
	for _, c := range []struct {
		next, xid int64
		want      []int64
	}{
		{1000, 999, []int64{999}},
		{1000, 3, []int64{3}},
		{1000, 2, []int64{}},
		{1000, 1001, []int64{}},
		{epoch + 10, 9, []int64{epoch + 9}},
		{epoch + 10, 11, []int64{11}},
		{epoch + 10, epoch - 1, []int64{epoch - 1}},
		{7*epoch + 10, epoch - 1, []int64{7*epoch - 1}},
		{7*epoch + 10, 3, []int64{7*epoch + 3}},
	} {
		require.Equal(t, c.want, pgtest.Column[int64](s.DB, sql, c.xid, c.xid, c.next), "%d of %d", c.xid, c.next)
	}
}

// A claim of several groups of which one is to run alone is given up, but not if that would cover the evidence of a
// crash: another process might have the group next.
func TestEvidenceIsNotGivenUp(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b", "c", "d")
	s.Exec("UPDATE pgfifo.jobs SET attempts = 1 WHERE group_id = 'd'") // it runs alone
	dead, other, l := s.lane(), s.lane(), s.lane()
	s.claim(dead, "a")
	s.Terminate(dead.pg().PID())
	held := s.claim(other, "b")

	h, got := s.together(l, "a", "b", "c", "d")
	require.Equal(t, "a c d", got)
	require.NotNil(t, h.claimed, "the first claim, not one after that was given up")
	lost := s.found(l)
	require.Len(t, lost, 1)
	require.Equal(t, "a", lost[0].GroupID)
	s.end(l, retryIn(&Hold{Held: *lost[0]}, 0)...)

	// Without a crash it is given up.
	h, got = s.together(l, "a", "b", "c", "d")
	require.Equal(t, "c", got)
	require.Nil(t, h.claimed)
	s.end(l)
	s.end(other, succeed(held)...)
	require.True(t, s.misses(l, "b"))
	require.Equal(t, 1, s.claim(l, "a").Attempts)
}

// What a claim saw that was given up must not stand for what has happened since.
func TestEvidenceSinceAClaimWasGivenUp(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	other := s.lane()
	s.end(other, retryIn(s.claim(other, "a"), 0)...) // it runs alone now
	s.claim(other, "a")
	s.end(other) // given back: a committed claim

	l := s.lane()
	hold := s.step(l, nil, request("b", "a"))
	require.NotNil(t, hold)
	require.Equal(t, "b", hold.GroupID)
	require.Empty(t, hold.Rest)
	require.Equal(t, []int{1}, hold.Apart)
	s.end(l)

	victim := s.lane()
	s.claim(victim, "a")
	s.Terminate(victim.pg().PID())

	hold = s.step(l, nil, request("a"))
	require.NotNil(t, hold)
	require.Len(t, s.found(l), 1)
}

// A mark that comes when its claim has ended is not made: nobody would take it back.
func TestMarkThatComesLate(t *testing.T) {
	s, l, h := held(t, 1)
	marks := func() int { return pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks") }
	require.NoError(t, l.Mark(t.Context(), []*Held{&h.Held}))
	require.Equal(t, 1, marks())
	s.end(l)
	require.Zero(t, marks())
	require.ErrorIs(t, l.Mark(t.Context(), []*Held{&h.Held}), ErrLost)
	require.Zero(t, marks())
}

// Nor does an attempt begin whose claim ends while it is being marked: who has claimed the job since has seen no mark.
func TestClaimThatEndsInItsMark(t *testing.T) {
	s, l, h := held(t, 1)
	s.Exec(fmt.Sprintf(`
		CREATE FUNCTION pgfifo.ending() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_terminate_backend(%d, 10000);
			RETURN NULL;
		END $$`, l.pg().PID()))
	s.Exec("CREATE TRIGGER ending AFTER INSERT ON pgfifo.attempt_marks EXECUTE FUNCTION pgfifo.ending()")
	require.ErrorIs(t, l.Mark(t.Context(), []*Held{&h.Held}), ErrLost)
	s.Exec("DROP TRIGGER ending ON pgfifo.attempt_marks")

	require.NoError(t, l.Record(t.Context(), &h.Held), "given back")
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks"))
	require.False(t, s.lost("a"))
}
