package lease

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// A handler's own savepoints do not hide the library's, whatever it calls them.
func TestSavepointsByAnyName(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	byHand := func(s *stage, tx pgx.Tx) {
		for _, name := range []string{"pgfifo", "pgfifo_batch", "pgfifo_1", "pgfifo_2"} {
			s.write(tx, "undone")
			s.do(tx, "SAVEPOINT "+name)
		}
	}
	t.Run("the attempt fails", func(t *testing.T) {
		s, h, settled := effects(t)
		require.NoError(t, h.loan.lane.Lend(func() { byHand(s, s.pgxTx(h)) }))
		require.Empty(t, settled(false))
	})
	t.Run("a transaction is rolled back", func(t *testing.T) {
		s, h, settled := effects(t)
		require.NoError(t, h.loan.lane.Lend(func() {
			outer := s.pgxTx(h)
			s.write(outer, "outer")
			inner := s.inside(outer)
			byHand(s, inner)
			require.NoError(t, inner.Rollback(ctx))
		}))
		require.Equal(t, []string{"outer"}, settled(true))
	})
}

// What the handler has rolled back is not committed, even if there was no way to tell the server.
func TestRollbackBesideOpenRows(t *testing.T) {
	ctx := t.Context()
	s, h, settled := effects(t)
	require.ErrorIs(t, h.loan.lane.Lend(func() {
		tx := s.pgxTx(h)
		s.write(tx, "1")
		rows, err := tx.Query(ctx, "SELECT generate_series(1, 3)")
		require.NoError(t, err)
		require.ErrorContains(t, tx.Rollback(ctx), "conn busy")
		rows.Close()
		s.write(s.pgxTx(h), "2")
	}), errNotUndone)
	require.Empty(t, settled(false))
}

// Nor what bun could not end, nor what cannot be undone by itself any more.
func TestRollbackThatCannotBe(t *testing.T) {
	ctx := t.Context()
	overAll(t, map[string]func(s *stage, h *Hold){
		"rows are open": func(s *stage, h *Hold) {
			outer := s.bunTx(h)
			inner := s.bunInside(ctx, outer)
			s.bunWrite(inner, "1")
			rows, err := inner.QueryContext(ctx, "SELECT generate_series(1, 3)")
			require.NoError(s, err)
			require.Error(s, inner.Rollback())
			require.NoError(s, rows.Close())
		},
		"its context ends before its commit": func(s *stage, h *Hold) {
			ended, cancel := context.WithCancel(ctx)
			inner := s.bunInside(ended, s.bunTx(h))
			s.bunWrite(inner, "1")
			cancel()
			require.ErrorIs(s, inner.Commit(), context.Canceled)
		},
		"the one around it is committed, and its context ends": func(s *stage, h *Hold) {
			short, cancel := context.WithCancel(ctx)
			outer := s.bunTx(h)
			inner := s.bunInside(ctx, outer)
			tx := s.pgxTx(h)
			innermost := s.bunInside(short, inner)
			s.bunWrite(innermost, "1")
			require.NoError(s, tx.Commit(ctx))
			require.NoError(s, inner.Commit())
			cancel()
			require.NoError(s, s.pgxTx(h).Rollback(ctx))
		},
		"the one around it is committed": func(s *stage, h *Hold) {
			outer := s.bunTx(h)
			inner := s.bunInside(ctx, outer)
			tx := s.pgxTx(h)
			s.write(tx, "1")
			require.NoError(s, inner.Commit())
			require.ErrorIs(s, tx.Rollback(ctx), errNotUndone)
		},
	}, func(t *testing.T, do func(s *stage, h *Hold)) {
		s, h, settled := effects(t)
		require.ErrorIs(t, h.loan.lane.Lend(func() { do(s, h) }), errNotUndone)
		require.Empty(t, settled(false))
	})
}

// Who asks for a transaction that the handler has ended by hand gets none: what it wrote would be committed at once.
func TestNoTransactionAfterItsEndByHand(t *testing.T) {
	overEach(t, []string{"COMMIT", "ROLLBACK"}, func(t *testing.T, sql string) {
		s, h, _ := effects(t)
		require.ErrorIs(t, h.loan.lane.Lend(func() {
			s.bunTx(h)
			s.do(s.pgxTx(h), sql)
			_, err := h.loan.PgxTx(t.Context())
			require.ErrorIs(t, err, ErrNotHeld)
			_, err = h.loan.BunTx(t.Context())
			require.ErrorIs(t, err, ErrNotHeld)
		}), ErrNotHeld)
	})
}
