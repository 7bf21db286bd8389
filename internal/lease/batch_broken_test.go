package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A call that finds its job gone does not undo the claim behind it: that is given back, and is no evidence of a crash.
func TestClaimBehindACallThatFindsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Exec("CREATE TABLE effects (v text)")
	ids := s.Enqueue(3, "a")
	s.Enqueue(1, "b")
	l := s.lane()
	h, _, err := l.Step(t.Context(), nil, &Request{Key: group("a"), Jobs: 3})
	require.NoError(t, err)
	require.Len(t, h.Rest, 2)
	require.NoError(t, l.Lend(func() { s.write(s.pgxTx(h), "1") }))
	require.NoError(t, l.Keep(t.Context()))
	s.Exec("DELETE FROM pgfifo.jobs WHERE id = $1", ids[1]) // it is not locked
	failed := &Hold{Held: h.Rest[0]}
	_, settled, err := l.Step(t.Context(), append(retryIn(failed, 0), succeed(h)...), &Request{Key: group("b")})
	require.ErrorIs(t, err, ErrNotHeld)
	require.False(t, settled)

	other := s.lane()
	s.claim(other, "b")
	lost, err := other.Lost(t.Context())
	require.NoError(t, err)
	require.Empty(t, lost, "nobody has died")
	s.end(other)
}

// Calls are part of the transaction that holds their jobs, or are not made.
func TestNoCallsWithoutAHold(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Exec("CREATE TABLE effects (v text)")
	ids := s.Enqueue(3, "a")
	s.Enqueue(1, "b")
	for name, next := range map[string]*Request{"and no more": nil, "and a claim": {Key: group("b")}} {
		l := s.lane()
		h, _, err := l.Step(t.Context(), nil, &Request{Key: group("a"), Jobs: 3})
		require.NoError(t, err)
		require.NoError(t, l.Lend(func() { s.write(s.pgxTx(h), "1") }))
		require.NoError(t, l.Keep(t.Context()))
		require.NoError(t, l.Lend(func() {
			tx, err := l.Loan().PgxTx(t.Context())
			require.NoError(t, err)
			_, err = tx.Conn().PgConn().Exec(t.Context(), "DEALLOCATE "+stmtRestore).ReadAll()
			require.NoError(t, err)
		}))
		require.NoError(t, l.Undo(t.Context()))
		require.ErrorIs(t, l.Keep(t.Context()), ErrNotHeld, "all is undone")
		_, settled, err := l.Step(t.Context(), succeed(h), next)
		s.end(l)
		left := pgtest.Column[int64](s.DB, "SELECT id FROM pgfifo.jobs WHERE group_id = 'a' ORDER BY id")
		require.Equal(t, ids, left, name)
		require.Empty(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"), name)
		require.ErrorIs(t, err, ErrNotHeld, name)
		require.False(t, settled, name)
	}
}
