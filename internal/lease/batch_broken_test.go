package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A call that finds its job gone does not undo the claim behind it: that is given back, and is no evidence of a crash.
func TestClaimBehindACallThatFindsNothing(t *testing.T) {
	s := newStage(t)
	s.Exec("CREATE TABLE effects (v text)")
	ids := s.Enqueue(3, "a")
	s.Enqueue(1, "b")
	l := s.lane()
	h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	require.Len(t, h.Rest, 2)
	require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
	require.NoError(t, l.KeepWrites(t.Context()))
	s.Exec("DELETE FROM pgfifo.jobs WHERE id = $1", ids[1]) // it is not locked
	failed := &Hold{Held: h.Rest[0]}
	calls := append(retryIn(failed, 0), succeed(h)...)
	require.ErrorIs(t, s.unsettled(l, calls, &Request{Key: group("b")}), ErrNotHeld)
	require.False(t, s.lost("b"), "nobody has died")
}

// A batch that is undone because somebody has changed a job behind its head is no evidence of a crash: who claims the
// group next, before anything else is known of it, charges nobody.
func TestBatchWhoseJobsHaveChanged(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, used bool) {
		pgtest.OverAll(t, map[string]string{
			"gone":    "DELETE FROM pgfifo.jobs WHERE id = $1",
			"changed": "UPDATE pgfifo.jobs SET payload = 'new' WHERE id = $1",
		}, func(t *testing.T, change string) {
			s := newStage(t)
			s.Exec("CREATE TABLE effects (v text)")
			ids := s.Enqueue(3, "a")
			s.Enqueue(1, "b")
			l := s.lane()
			h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
			require.Len(t, h.Rest, 2)
			if used {
				require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
			}
			s.Exec(change, ids[1])
			calls := append(succeed(h), behind(h))
			require.ErrorIs(t, s.unsettled(l, calls, &Request{Key: group("b")}), ErrGivenBack)
			require.False(t, s.lost("a"), "nobody has died")
			require.Empty(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"))
			require.Contains(t, pgtest.Column[int64](s.DB, "SELECT id FROM pgfifo.jobs"), ids[0])
			require.False(t, l.Closed())
		})
	})
}

// Of a batch that is given back because of what its handlers wrote, nobody is told that it was not held.
func TestBatchThatBreaksAConstraint(t *testing.T) {
	s := newStage(t)
	s.Exec("CREATE TABLE effects (v text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	s.Enqueue(1, "a", "b")
	l := s.lane()
	h, _ := s.together(l, "a", "b")
	require.NoError(t, l.Lend(t.Context(), func() {
		tx := s.pgxTx(h)
		s.write(tx, "1")
		s.write(tx, "1")
	}))
	err := s.unsettled(l, succeed(h), nil)
	require.ErrorIs(t, err, ErrGivenBack)
	require.NotErrorIs(t, err, ErrNotHeld)
	require.ErrorContains(t, err, "23505")
}

// A cursor WITH HOLD, whose query would fail at COMMIT, does not refuse that of a batch.
func TestCursorOfABatch(t *testing.T) {
	const declare = "DECLARE held CURSOR WITH HOLD FOR SELECT 1 / n FROM generate_series(0, 1) n"
	type row struct{ before, handler string }
	pgtest.OverAll(t, map[string]row{
		"the handler's": {"SELECT 1", declare},
		"of a deferred trigger": {
			`CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN EXECUTE '` + declare + `'; RETURN NULL; END $$;
			CREATE CONSTRAINT TRIGGER hold AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
			EXECUTE FUNCTION hold()`, "SELECT 1",
		},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Exec("CREATE TABLE effects (v text)")
		s.Exec(x.before)
		s.Enqueue(1, "a", "b")
		l := s.lane()
		h, got := s.together(l, "a", "b")
		require.Equal(t, "a b", got)
		require.NoError(t, l.Lend(t.Context(), func() {
			tx := s.pgxTx(h)
			s.write(tx, "1")
			s.do(tx, x.handler)
		}))
		s.end(l, succeed(h)...)
		require.Equal(t, []string{"1"}, pgtest.Column[string](s.DB, "SELECT v FROM effects"))
	})
}

// behind settles the jobs behind the head of a batch.
func behind(h *Hold) Call {
	ids, places := []byte("{"), []byte("{")
	for i, held := range h.Rest {
		if i > 0 {
			ids, places = append(ids, ','), append(places, ',')
		}
		ids = append(ids, appendInt(held.ID)...)
		places = append(held.Place.Append(append(places, '"')), '"')
	}
	return Call{
		Statement: "behind", Args: [][]byte{[]byte(h.Queue), append(ids, '}'), append(places, '}')}, Behind: true,
	}
}

// Calls are part of the transaction that holds their jobs, or are not made.
func TestNoCallsWithoutAHold(t *testing.T) {
	s := newStage(t)
	s.Exec("CREATE TABLE effects (v text)")
	ids := s.Enqueue(3, "a")
	s.Enqueue(1, "b")
	for name, next := range map[string]*Request{"and no more": nil, "and a claim": {Key: group("b")}} {
		l := s.lane()
		h := s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
		require.NoError(t, l.Lend(t.Context(), func() { s.write(s.pgxTx(h), "1") }))
		require.NoError(t, l.KeepWrites(t.Context()))
		require.NoError(t, l.Lend(t.Context(), func() {
			tx, err := l.Loan().PgxTx(t.Context())
			require.NoError(t, err)
			s.do(tx, takeUnseen)
		}))
		require.NoError(t, l.Undo(t.Context()))
		require.ErrorIs(t, l.KeepWrites(t.Context()), ErrNotHeld, "all is undone")
		require.ErrorIs(t, s.unsettled(l, succeed(h), next), ErrNotHeld, name)
		s.end(l)
		left := pgtest.Column[int64](s.DB, "SELECT id FROM pgfifo.jobs WHERE group_id = 'a' ORDER BY id")
		require.Equal(t, ids, left, name)
		require.Empty(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"), name)
	}
}
