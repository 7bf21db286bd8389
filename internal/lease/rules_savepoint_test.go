package lease

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

const nonsense = "SELECT 1/0"

func (s *stage) pgxTx(h *Hold) pgx.Tx {
	s.Helper()
	tx, err := h.loan.PgxTx(s.Context())
	require.NoError(s, err)
	return tx
}

func TestErrorInHandlerKeepsLocks(t *testing.T) {
	s, l, h := held(t, 2)
	err := l.Lend(t.Context(), func() {
		_, err := s.pgxTx(h).Exec(t.Context(), nonsense)
		require.ErrorContains(t, err, "22012")
		require.Equal(t, []string{"a", "a/1"}, s.Locked())
		for kind, use := range uses {
			require.ErrorContains(t, use(t.Context(), h), "25P02", kind)
		}
	})
	require.ErrorContains(t, err, "did not roll it back")
	require.False(t, l.Closed())
	require.NoError(t, l.Undo(t.Context()))
	require.Equal(t, []string{"a", "a/1"}, s.Locked())
	s.end(l, retryIn(h, time.Hour)...)
	require.Empty(t, s.Locked())
	require.Equal(t, 1, s.claim(l, "a").Attempts)
}

// A handler that ends the transaction by hand lost the locks. Its job is not settled, and nothing pretends it is.
func TestHandlerThatEndsTheTransaction(t *testing.T) {
	alike := "COMMIT; BEGIN; SAVEPOINT " + outerSavepoint
	pgtest.OverNamed(t, map[string]string{
		"COMMIT":                  "when it returns",
		"ROLLBACK":                "when it returns",
		"ABORT; SELECT 1":         "when it returns",
		"PREPARE TRANSACTION 'x'": "when it returns", // fails, unless the server allows it
		"COMMIT; BEGIN":           "by the step",
		"ROLLBACK; BEGIN":         "by the step",
		"COMMIT AND CHAIN":        "by the step",
		"ROLLBACK AND CHAIN":      "by the step",
		releaseOuter:              "by the step",
		alike:                     "by the step",
	}, func(t *testing.T, sql string, caught string) {
		s := newStage(t)
		s.Enqueue(2, "a", "b")
		l := s.lane()
		for _, fails := range []bool{false, true} { // one that also failed is told apart from one that only did
			h := s.claim(l, "a")
			require.Equal(t, int64(1), h.ID, "still there, and the lane can go on")
			err := l.Lend(t.Context(), func() { _, _ = s.pgxTx(h).Exec(t.Context(), sql) })
			require.Equal(t, caught == "when it returns", err != nil)
			if err == nil && !fails {
				require.ErrorIs(t, s.unsettled(l, succeed(h), &Request{Key: group("b")}), ErrNotHeld)
			} else if l.hold != nil {
				switch err := l.Undo(t.Context()); sql {
				case "PREPARE TRANSACTION 'x'":
					s.end(l)
				case alike: // the savepoint is there: the step finds out
					require.ErrorIs(t, s.unsettled(l, retryIn(h, 0), nil), ErrNotHeld)
				default:
					require.ErrorIs(t, err, ErrNotHeld)
				}
			}
			require.Empty(t, s.Locked())
			require.False(t, l.Closed())
		}
		require.Equal(t, int64(1), s.claim(l, "a").ID)
	})
}

func TestRowsLeftOpen(t *testing.T) {
	s, l, h := held(t, 1)
	err := l.Lend(t.Context(), func() {
		rows, err := s.pgxTx(h).Query(t.Context(), "SELECT generate_series(1, 100000)")
		require.NoError(t, err)
		require.True(t, rows.Next())
	})
	require.ErrorIs(t, err, ErrNotHeld)
	require.ErrorContains(t, err, "still open")
	require.True(t, l.Closed())
	require.ErrorIs(t, l.Undo(t.Context()), ErrLost)
	s.Until(func() bool { return len(s.Locked()) == 0 })
}

// database/sql knows its open rows, and closes them.
func TestBunRowsLeftOpen(t *testing.T) {
	s, l, h := held(t, 1)
	require.NoError(t, l.Lend(t.Context(), func() {
		tx, err := h.loan.BunTx(t.Context())
		require.NoError(t, err)
		//nolint:rowserrcheck,sqlclosecheck // on purpose
		rows, err := tx.QueryContext(t.Context(), "SELECT generate_series(1, 100000)")
		require.NoError(t, err)
		require.True(t, rows.Next())
	}))
	s.end(l, succeed(h)...)
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
}

// slow starts a statement of c that takes long, and cancels its context when it is under way.
func (s *stage) slow(c *pgx.Conn, exec func(ctx context.Context, sql string) error) error {
	s.Helper()
	pid := c.PgConn().PID()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	done := beside(func() error { return exec(ctx, "SELECT pg_sleep(600)") })
	s.Until(func() bool { return s.Active(pid) })
	cancel()
	return <-done
}

// cancelled has a statement of the held transaction cancelled, after which the group, a, is held as before.
func (s *stage) cancelled(l *Lane, h *Hold) {
	s.Helper()
	require.NoError(s, l.Lend(s.Context(), func() {
		tx := s.pgxTx(h)
		err := s.slow(tx.Conn(), func(ctx context.Context, sql string) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		require.ErrorContains(s, err, "57014")
		require.Equal(s, []string{"a", "a/1"}, s.Locked())
		require.NoError(s, tx.Rollback(s.Context()))
	}))
}
