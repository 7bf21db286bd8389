package lease

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A handler that leaves its transaction failed is told which statement did that, however it was made, and no value.
func TestNotRolledBack(t *testing.T) {
	const missing = `: ERROR: relation "nowhere" does not exist (SQLSTATE 42P01)`
	do := func(sql string, args ...any) func(*stage, *Hold) {
		return func(s *stage, h *Hold) { _, _ = s.pgxTx(h).Exec(s.Context(), sql, args...) }
	}
	all := func(steps ...func(*stage, *Hold)) func(*stage, *Hold) {
		return func(s *stage, h *Hold) {
			for _, step := range steps {
				step(s, h)
			}
		}
	}
	undone := func(s *stage, h *Hold) {
		tx, err := s.pgxTx(h).Begin(s.Context())
		require.NoError(s, err)
		_, err = tx.Exec(s.Context(), "SELECT FROM elsewhere")
		require.Error(s, err)
		require.NoError(s, tx.Rollback(s.Context()))
	}
	bunDo := func(s *stage, h *Hold) { _, _ = s.bunTx(h).ExecContext(s.Context(), "SELECT FROM nowhere") }
	batch := func(s *stage, h *Hold) {
		b := &pgx.Batch{}
		b.Queue("SELECT 1")
		b.Queue("SELECT FROM nowhere")
		b.Queue("SELECT 1/0")
		_ = s.pgxTx(h).SendBatch(s.Context(), b).Close()
	}
	type row struct {
		do   func(*stage, *Hold)
		text string
		code string
	}
	pgtest.OverAll(t, map[string]row{
		"exec":    {do("SELECT FROM nowhere"), missing, "42P01"},
		"bun":     {bunDo, missing, "42P01"},
		"batch":   {batch, missing, "42P01"},
		"the 1st": {all(do("SELECT FROM nowhere"), do("SELECT 1"), do("not SQL")), missing, "42P01"},
		"the one that was not rolled back": {
			all(do("SELECT 1"), undone, do("SELECT FROM nowhere")), missing, "42P01",
		},
		"rows": {func(s *stage, h *Hold) {
			var n int
			_ = s.pgxTx(h).QueryRow(s.Context(), "SELECT 1 / (3 - g) FROM generate_series(1, 5) g").Scan(&n)
		}, ": ERROR (SQLSTATE 22012)", "22012"},
		"copy": {func(s *stage, h *Hold) {
			s.Exec("ALTER TABLE effects ADD CONSTRAINT short CHECK (length(v) < 4)")
			rows := pgx.CopyFromRows([][]any{{"v"}, {"secret"}})
			_, _ = s.pgxTx(h).CopyFrom(s.Context(), pgx.Identifier{"effects"}, []string{"v"}, rows)
		}, `: ERROR: new row for relation "effects" violates check constraint "short" (SQLSTATE 23514)`, "23514"},
		"value": {do("SELECT $1::text::integer", "secret"), ": ERROR (SQLSTATE 22P02)", "22P02"},
		"text":  {do("SELECT secret secret secret"), ": ERROR (SQLSTATE 42601)", "42601"},
		"raised": {
			do("DO $$ BEGIN RAISE unique_violation USING MESSAGE = 'secret'; END $$"),
			": ERROR (SQLSTATE 23505)", "23505",
		},
		"unseen": {func(s *stage, h *Hold) {
			_, _ = s.pgxTx(h).Conn().PgConn().Exec(s.Context(), "SELECT FROM nowhere").ReadAll()
		}, "", ""},
	}, func(t *testing.T, x row) {
		s, h, settled := effects(t)
		err := h.loan.lane.Lend(t.Context(), func() { x.do(s, h) })
		require.ErrorIs(t, err, errNotRolledBack)
		require.EqualError(t, err, errNotRolledBack.Error()+x.text)
		if x.code != "" {
			pgErr := (*pgconn.PgError)(nil)
			require.ErrorAs(t, err, &pgErr)
			require.Equal(t, x.code, pgErr.Code)
		}
		require.Empty(t, settled(false))
	})
}

// What a handler has failed in is no other's.
func TestNotRolledBackByAnother(t *testing.T) {
	s, h, settled := effects(t)
	require.ErrorIs(t, h.loan.lane.Lend(t.Context(), func() {
		_, _ = s.pgxTx(h).Exec(t.Context(), "SELECT FROM nowhere")
	}), errNotRolledBack)
	require.NoError(t, h.loan.lane.Undo(t.Context()))
	require.NoError(t, h.loan.lane.KeepWrites(t.Context()))
	err := h.loan.lane.Lend(t.Context(), func() {
		tx, err := h.loan.lane.Loan().PgxTx(t.Context())
		require.NoError(t, err)
		_, _ = tx.Conn().PgConn().Exec(t.Context(), "SELECT 1/0").ReadAll()
	})
	require.EqualError(t, err, errNotRolledBack.Error())
	require.Empty(t, settled(false))
}

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
		require.NoError(t, h.loan.lane.Lend(t.Context(), func() { byHand(s, s.pgxTx(h)) }))
		require.Empty(t, settled(false))
	})
	t.Run("a transaction is rolled back", func(t *testing.T) {
		s, h, settled := effects(t)
		require.NoError(t, h.loan.lane.Lend(t.Context(), func() {
			outer := s.pgxTx(h)
			s.write(outer, "outer")
			inner := s.inside(outer)
			byHand(s, inner)
			require.NoError(t, inner.Rollback(ctx))
		}))
		require.Equal(t, []string{"outer"}, settled(true))
	})
}

// What the handler has rolled back is not committed, even if there was no way to tell the server. Nor is what bun could
// not end, nor what cannot be undone by itself any more.
func TestRollbackThatCannotBe(t *testing.T) {
	ctx := t.Context()
	pgtest.OverAll(t, map[string]func(s *stage, h *Hold){
		"rows of pgx are open": func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "1")
			rows, err := tx.Query(ctx, "SELECT generate_series(1, 3)")
			require.NoError(s, err)
			require.ErrorContains(s, tx.Rollback(ctx), "conn busy")
			rows.Close()
			s.write(s.pgxTx(h), "2")
		},
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
		require.ErrorIs(t, h.loan.lane.Lend(t.Context(), func() { do(s, h) }), errNotUndone)
		require.Empty(t, settled(false))
	})
}

// Who asks for a transaction that the handler has ended by hand gets none: what it wrote would be committed at once.
func TestNoTransactionAfterItsEndByHand(t *testing.T) {
	pgtest.OverEach(t, []string{"COMMIT", "ROLLBACK"}, func(t *testing.T, sql string) {
		s, h, _ := effects(t)
		require.ErrorIs(t, h.loan.lane.Lend(t.Context(), func() {
			s.bunTx(h)
			s.do(s.pgxTx(h), sql)
			_, err := h.loan.PgxTx(t.Context())
			require.ErrorIs(t, err, ErrNotHeld)
			_, err = h.loan.BunTx(t.Context())
			require.ErrorIs(t, err, ErrNotHeld)
		}), ErrNotHeld)
	})
}
