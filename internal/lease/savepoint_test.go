package lease

import (
	"context"
	"database/sql"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A job that writes takes one transaction id beside that of the claim, however often its handler asks for the
// transaction.
func TestOneSavepointForAJob(t *testing.T) {
	pgtest.OverAll(t, map[string]func(s *stage, h *Hold){
		"pgx": func(s *stage, h *Hold) { s.write(s.pgxTx(h), "1") },
		"bun": func(s *stage, h *Hold) { s.bunWrite(s.bunTx(h), "1") },
		"asks again": func(s *stage, h *Hold) {
			for n := range 5 {
				s.write(s.pgxTx(h), strconv.Itoa(n))
			}
		},
		"commits": func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "1")
			require.NoError(s, tx.Commit(s.Context()))
		},
		"rolls back before": func(s *stage, h *Hold) {
			require.NoError(s, s.pgxTx(h).Rollback(s.Context()))
			s.write(s.pgxTx(h), "1")
		},
		"asks for a token": func(s *stage, h *Hold) {
			_, err := h.loan.Fence(s.Context(), h.Key)
			require.NoError(s, err)
			s.write(s.pgxTx(h), "1")
		},
	}, func(t *testing.T, do func(s *stage, h *Hold)) {
		s, h, settled := effects(t)
		require.NoError(t, h.loan.lane.Lend(t.Context(), func() { do(s, h) }))
		require.Equal(t, 1, pgtest.One[int](s.DB, `SELECT count(*) - 1 FROM pg_locks
			WHERE pid = $1 AND locktype = 'transactionid' AND mode = 'ExclusiveLock'`, h.loan.lane.pg().PID()))
		settled(true)
	})
}

// Transactions of the two kinds side by side, and ended in any order.
func TestTransactionsSideBySide(t *testing.T) {
	ctx := t.Context()
	type row struct {
		do   func(s *stage, h *Hold)
		want []string
	}
	cannotBegin := func(kind string) func(s *stage, h *Hold) {
		return func(s *stage, h *Hold) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			require.ErrorIs(s, uses[kind](ended, h), context.Canceled)
			s.write(s.pgxTx(h), "kept")
		}
	}
	pgtest.OverAll(t, map[string]row{
		"pgx's cannot begin": {cannotBegin("pgx"), []string{"kept"}},
		"bun's cannot begin": {cannotBegin("bun"), []string{"kept"}},
		"in every order": {script, []string{
			"1 committed", "2 committed", "2 the same", "3 nested", "4 nested", "4 outer", "5 left open",
		}},
		"the inner is rolled back": {func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "outer")
			btx := s.bunTx(h)
			s.bunWrite(btx, "inner")
			require.NoError(s, btx.Rollback())
			s.write(tx, "outer, later")
		}, []string{"outer", "outer, later"}},
		"the outer is rolled back": {func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "outer")
			btx := s.bunTx(h)
			s.bunWrite(btx, "inner")
			require.NoError(s, tx.Rollback(ctx))
			require.ErrorIs(s, btx.Commit(), pgx.ErrTxCommitRollback)
			s.write(s.pgxTx(h), "anew")
		}, []string{"anew"}},
		"both are, the outer first": {func(s *stage, h *Hold) {
			btx := s.bunTx(h)
			s.bunWrite(btx, "outer")
			tx := s.pgxTx(h)
			s.write(tx, "inner")
			require.NoError(s, btx.Rollback())
			require.ErrorIs(s, tx.Rollback(ctx), pgx.ErrTxClosed)
			s.bunWrite(s.bunTx(h), "anew")
			s.write(s.pgxTx(h), "anew, too")
		}, []string{"anew", "anew, too"}},
		"the outer is committed, the inner rolled back": {func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "outer")
			btx := s.bunTx(h)
			s.bunWrite(btx, "inner")
			require.NoError(s, tx.Commit(ctx))
			require.NoError(s, btx.Rollback())
			require.NoError(s, s.pgxTx(h).Rollback(ctx))
		}, []string{"outer"}},
		"the inner is asked for again, bun": {func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			old := s.bunTx(h)
			require.NoError(s, tx.Rollback(ctx))
			btx := s.bunTx(h)
			s.bunWrite(btx, "undone")
			_, err := old.ExecContext(ctx, "INSERT INTO effects VALUES ('of the old one')")
			require.ErrorIs(s, err, sql.ErrTxDone)
			require.NoError(s, old.Rollback())
			require.NoError(s, btx.Rollback())
			btx = s.bunTx(h)
			s.bunWrite(btx, "anew")
			require.NoError(s, btx.Commit())
		}, []string{"anew"}},
		"the inner is asked for again, pgx": {func(s *stage, h *Hold) {
			btx := s.bunTx(h)
			old := s.pgxTx(h)
			require.NoError(s, btx.Rollback())
			tx := s.pgxTx(h)
			s.write(tx, "undone")
			_, err := old.Exec(ctx, "INSERT INTO effects VALUES ('of the old one')")
			require.ErrorIs(s, err, pgx.ErrTxClosed)
			require.ErrorIs(s, old.Commit(ctx), pgx.ErrTxClosed)
			require.NoError(s, tx.Rollback(ctx))
			tx = s.pgxTx(h)
			s.write(tx, "anew")
			require.NoError(s, tx.Commit(ctx))
		}, []string{"anew"}},
		"what is written beside the inner goes with it": {func(s *stage, h *Hold) {
			outer := s.bunTx(h)
			s.bunWrite(outer, "before")
			require.NoError(s, outer.Commit())
			tx := s.pgxTx(h)
			btx := s.bunTx(h)
			s.write(tx, "undone")
			require.NoError(s, tx.Commit(ctx))
			require.NoError(s, btx.Rollback())
		}, []string{"before"}},
		"committed, then rolled back": {func(s *stage, h *Hold) {
			for _, v := range []string{"1", "2"} {
				tx := s.pgxTx(h)
				s.write(tx, v)
				require.NoError(s, tx.Commit(ctx))
				tx = s.pgxTx(h)
				s.write(tx, "undone")
				require.NoError(s, tx.Rollback(ctx))
			}
		}, []string{"1", "2"}},
		"one begun on pgx's is rolled back": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			s.write(outer, "outer")
			inner := s.inside(outer)
			btx := s.bunTx(h)
			s.bunWrite(btx, "undone")
			require.NoError(s, inner.Rollback(ctx))
			_, err := btx.ExecContext(ctx, "INSERT INTO effects VALUES ('of the old one')")
			require.ErrorIs(s, err, sql.ErrTxDone)
			require.NoError(s, btx.Rollback())
			s.bunWrite(s.bunTx(h), "anew")
		}, []string{"anew", "outer"}},
		"the one around one begun on pgx's is rolled back": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			s.write(outer, "outer")
			btx := s.bunTx(h)
			inner := s.inside(outer)
			s.write(inner, "undone")
			require.NoError(s, btx.Rollback())
			_, err := inner.Exec(ctx, "INSERT INTO effects VALUES ('of the old one')")
			require.ErrorIs(s, err, pgx.ErrTxClosed)
			require.ErrorIs(s, inner.Commit(ctx), pgx.ErrTxClosed)
		}, []string{"outer"}},
		"one begun on bun's is rolled back": {func(s *stage, h *Hold) {
			outer := s.bunTx(h)
			s.bunWrite(outer, "outer")
			inner := s.bunInside(ctx, outer)
			tx := s.pgxTx(h)
			s.write(tx, "undone")
			require.NoError(s, inner.Rollback())
			require.ErrorIs(s, tx.Commit(ctx), pgx.ErrTxClosed)
			s.write(s.pgxTx(h), "anew")
		}, []string{"anew", "outer"}},
		"a savepoint by hand is gone back to": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			s.do(outer, "SAVEPOINT mine")
			btx := s.bunTx(h)
			s.bunWrite(btx, "undone")
			s.do(outer, "/* mine */ rollback work to mine")
			require.Error(s, btx.Commit())
			s.write(outer, "outer")
		}, []string{"outer"}},
		"one begun on bun's is committed, and one in that goes on": {func(s *stage, h *Hold) {
			outer := s.bunTx(h)
			inner := s.bunInside(ctx, outer)
			tx := s.pgxTx(h)
			s.write(tx, "1")
			require.NoError(s, inner.Commit())
			s.write(tx, "2")
			require.NoError(s, tx.Commit(ctx))
			s.write(s.pgxTx(h), "3")
		}, []string{"1", "2", "3"}},
		"savepoints by hand with quoted names": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			s.do(outer, `SAVEPOINT "One"`)
			btx := s.bunTx(h)
			s.do(outer, `SAVEPOINT "one"`)
			s.bunWrite(btx, "undone")
			s.do(outer, `ROLLBACK TO SAVEPOINT ONE`)
			s.bunWrite(btx, "undone, too")
			s.do(outer, `ROLLBACK TO "One"`)
			require.ErrorIs(s, btx.Commit(), pgx.ErrTxCommitRollback)
			s.write(outer, "outer")
		}, []string{"outer"}},
		"one begun on bun's is rolled back when its context has ended": {func(s *stage, h *Hold) {
			outer := s.bunTx(h)
			ended, cancel := context.WithCancel(ctx)
			require.ErrorIs(s, outer.RunInTx(ended, nil, func(_ context.Context, tx bun.Tx) error {
				s.bunWrite(tx, "undone")
				cancel()
				return context.Canceled
			}), context.Canceled)
			s.bunWrite(outer, "plan B")
		}, []string{"plan B"}},
		"what is around one begun on bun's is rolled back, and the context of that ends": {func(s *stage, h *Hold) {
			short, cancel := context.WithCancel(ctx)
			outer := s.bunTx(h)
			inner := s.bunInside(short, outer)
			s.bunWrite(inner, "undone")
			require.NoError(s, outer.Rollback())
			cancel()
			s.bunWrite(s.bunTx(h), "anew")
		}, []string{"anew"}},
		"one begun on bun's is rolled back, and the context of one in that ends": {func(s *stage, h *Hold) {
			short, cancel := context.WithCancel(ctx)
			outer := s.bunTx(h)
			inner := s.bunInside(ctx, outer)
			for range 2 {
				innermost := s.bunInside(short, inner)
				s.bunWrite(innermost, "undone")
			}
			require.NoError(s, inner.Rollback())
			cancel()
			s.bunWrite(outer, "outer")
		}, []string{"outer"}},
		"what was begun in one that is committed ends with the one around that": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			for _, byHand := range []bool{false, true} {
				around := s.inside(outer)
				s.do(outer, "SAVEPOINT mine")
				s.do(outer, "SAVEPOINT mine_too")
				btx := s.bunTx(h)
				s.bunWrite(btx, "undone")
				s.do(outer, "RELEASE mine_too")
				if byHand {
					s.do(outer, "ROLLBACK TO mine")
				} else {
					require.NoError(s, around.Rollback(ctx))
				}
				_, err := btx.ExecContext(ctx, "INSERT INTO effects VALUES ('of the old one')")
				require.ErrorIs(s, err, sql.ErrTxDone)
				require.NoError(s, btx.Rollback())
			}
			s.write(outer, "outer")
		}, []string{"outer"}},
		"savepoints by hand with one name": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			s.do(outer, "SAVEPOINT mine")
			btx := s.bunTx(h)
			s.do(outer, "SAVEPOINT mine")
			s.bunWrite(btx, "undone")
			s.do(outer, "RELEASE mine")
			s.bunWrite(btx, "undone, too")
			s.do(outer, "ROLLBACK TO mine")
			require.ErrorIs(s, btx.Commit(), pgx.ErrTxCommitRollback)
			s.write(outer, "outer")
		}, []string{"outer"}},
		"a savepoint by hand outlives the commit of what it was made in": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			btx := s.bunTx(h)
			inner := s.bunInside(ctx, btx)
			s.bunWrite(inner, "bun's")
			require.NoError(s, btx.Commit())
			s.do(outer, "SAVEPOINT mine")
			s.write(outer, "undone")
			s.do(outer, "ROLLBACK TO mine")
			innermost := s.inside(outer)
			s.write(innermost, "kept")
			s.do(outer, "SAVEPOINT other")
			s.write(outer, "undone, too")
			require.NoError(s, innermost.Commit(ctx))
			s.do(outer, "ROLLBACK TO other")
			s.do(outer, "RELEASE SAVEPOINT other")
		}, []string{"bun's", "kept"}},
		"one begun on another, in both, committed or not": {func(s *stage, h *Hold) {
			outer := s.pgxTx(h)
			for _, v := range []string{"1", "2", "3"} {
				inner := s.inside(outer)
				innermost := s.inside(inner)
				s.write(innermost, v)
				require.NoError(s, innermost.Commit(ctx))
				if v == "2" {
					require.NoError(s, inner.Rollback(ctx))
				} else {
					require.NoError(s, inner.Commit(ctx))
				}
				require.ErrorIs(s, inner.Rollback(ctx), pgx.ErrTxClosed)
			}
			require.Len(s, h.loan.stack, 2, "the first one's savepoint, and that of the one rolled back")
		}, []string{"1", "3"}},
		"rolled back when the context has ended": {func(s *stage, h *Hold) {
			ended, cancel := context.WithCancel(ctx)
			tx := s.pgxTx(h)
			s.write(tx, "undone")
			cancel()
			require.NoError(s, tx.Rollback(ended))
			s.write(s.pgxTx(h), "anew")
		}, []string{"anew"}},
		"one rolled back after an error": {func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "undone")
			_, err := tx.Exec(ctx, nonsense)
			require.Error(s, err)
			require.NoError(s, tx.Rollback(ctx))
			s.write(s.pgxTx(h), "kept")
		}, []string{"kept"}},
		"both committed after an error": {func(s *stage, h *Hold) {
			tx := s.pgxTx(h)
			s.write(tx, "undone")
			_, err := tx.Exec(ctx, nonsense)
			require.Error(s, err)
			require.ErrorIs(s, tx.Commit(ctx), pgx.ErrTxCommitRollback)
			btx := s.bunTx(h)
			s.bunWrite(btx, "undone")
			_, err = btx.ExecContext(ctx, nonsense)
			require.Error(s, err)
			require.ErrorIs(s, btx.Commit(), pgx.ErrTxCommitRollback)
			s.bunWrite(s.bunTx(h), "kept")
		}, []string{"kept"}},
		"a context ends while one is begun": {func(s *stage, h *Hold) {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			tx, err := h.loan.PgxTx(&endsLater{Context: ended})
			require.NoError(s, err)
			_, err = tx.Exec(ended, "INSERT INTO effects VALUES ('late')")
			require.ErrorIs(s, err, context.Canceled)
			s.write(tx, "in time")
			require.NoError(s, tx.Commit(ctx))
		}, []string{"in time"}},
		"the context in which bun's was begun ends": {func(s *stage, h *Hold) {
			ended, cancel := context.WithCancel(ctx)
			tx, err := h.loan.BunTx(ended)
			require.NoError(s, err)
			cancel()
			s.bunWrite(tx, "kept")
		}, []string{"kept"}},
	}, func(t *testing.T, x row) {
		pgtest.OverAll(t, map[string]bool{"success": true, "failure": false}, func(t *testing.T, success bool) {
			s, h, settled := effects(t)
			require.NoError(t, h.loan.lane.Lend(t.Context(), func() { x.do(s, h) }))
			require.Zero(t, h.loan.lane.db.Stats().OpenConnections)
			require.Empty(t, pgtest.Column[string](s.DB, "SELECT v FROM effects"), "nobody sees them before")
			if success {
				require.Equal(t, x.want, settled(true))
			} else {
				require.Empty(t, settled(false))
			}
		})
	})
}

// endsLater is a context that ends just after it was asked whether it has ended.
type endsLater struct {
	context.Context
	asked bool
}

func (c *endsLater) Err() error {
	if !c.asked {
		c.asked = true
		return nil
	}
	return c.Context.Err()
}
