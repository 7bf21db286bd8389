package lease

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// An effect is what a handler writes.
type effect struct {
	bun.BaseModel `bun:"table:effects"`

	V string `bun:"v"`
}

// effects holds a job on a stage with a table for effects; settled ends it with success, or with its failure, and
// returns what there is then.
func effects(t *testing.T) (s *stage, h *Hold, settled func(success bool) []string) {
	s = newStage(t)
	s.Enqueue(1, "a")
	s.Exec("CREATE TABLE effects (v text)")
	l := s.lane()
	h = s.claim(l, "a")
	return s, h, func(success bool) []string {
		t.Helper()
		if success {
			require.NoError(t, l.Lend(t.Context(), func() {}))
			s.end(l, succeed(h)...)
		} else {
			require.NoError(t, l.Undo(t.Context()))
			s.end(l, retryIn(h, 0)...)
		}
		require.Empty(t, s.Locked())
		return pgtest.Column[string](s.DB, "SELECT v FROM effects ORDER BY v")
	}
}

// begin begins a transaction of the pool, which is rolled back at the end of the test.
func (s *stage) begin() pgx.Tx {
	s.Helper()
	tx, err := s.Pool.BeginTx(s.Context(), pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	require.NoError(s, err)
	s.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// inside begins a transaction in one, or on a connection.
func (s *stage) inside(outer interface {
	Begin(ctx context.Context) (pgx.Tx, error)
},
) pgx.Tx {
	s.Helper()
	tx, err := outer.Begin(s.Context())
	require.NoError(s, err)
	return tx
}

// bunInside is inside with bun, whose transaction ends with the context.
func (s *stage) bunInside(ctx context.Context, outer bun.Tx) bun.Tx {
	s.Helper()
	tx, err := outer.BeginTx(ctx, nil)
	require.NoError(s, err)
	return tx
}

// do runs a statement in a transaction.
func (s *stage) do(tx pgx.Tx, sql string, args ...any) {
	s.Helper()
	_, err := tx.Exec(s.Context(), sql, args...)
	require.NoError(s, err)
}

func (s *stage) write(tx pgx.Tx, v string) {
	s.Helper()
	s.do(tx, "INSERT INTO effects VALUES ($1)", v)
}

func (s *stage) bunWrite(tx bun.IDB, v string) {
	s.Helper()
	_, err := tx.NewInsert().Model(&effect{V: v}).Exec(s.Context())
	require.NoError(s, err)
}

func (s *stage) bunTx(h *Hold) bun.Tx {
	s.Helper()
	tx, err := h.loan.BunTx(s.Context())
	require.NoError(s, err)
	return tx
}

// script is a handler that uses its transactions in every order.
func script(s *stage, h *Hold) {
	ctx := s.Context()
	tx := s.pgxTx(h)
	s.write(tx, "1 committed")
	require.NoError(s, tx.Commit(ctx))
	require.ErrorIs(s, tx.Commit(ctx), pgx.ErrTxClosed)
	require.ErrorIs(s, tx.Rollback(ctx), pgx.ErrTxClosed)

	tx = s.pgxTx(h)
	s.write(tx, "undone")
	require.NoError(s, tx.Rollback(ctx))

	btx := s.bunTx(h)
	s.bunWrite(btx, "2 committed")
	again := s.bunTx(h)
	s.bunWrite(again, "2 the same")
	require.NoError(s, again.Commit())
	require.ErrorIs(s, btx.Commit(), sql.ErrTxDone)

	btx = s.bunTx(h)
	s.bunWrite(btx, "undone")
	require.NoError(s, btx.Rollback())

	btx = s.bunTx(h)
	nested, err := btx.Begin()
	require.NoError(s, err)
	s.bunWrite(nested, "undone")
	require.NoError(s, nested.Rollback())
	require.NoError(s, btx.RunInTx(ctx, nil, func(_ context.Context, tx bun.Tx) error {
		s.bunWrite(tx, "3 nested")
		return nil
	}))
	require.NoError(s, btx.Commit())

	tx = s.pgxTx(h)
	inner := s.inside(tx)
	s.write(inner, "undone")
	require.NoError(s, inner.Rollback(ctx))
	inner = s.inside(tx)
	s.write(inner, "4 nested")
	require.NoError(s, inner.Commit(ctx))
	s.write(tx, "4 outer")
	require.NoError(s, tx.Commit(ctx))

	s.bunWrite(s.bunTx(h), "5 left open")
}

// What else a pgx.Tx can do goes through the lane's connection too.
func TestPgxTxDoesEverything(t *testing.T) {
	s, h, settled := effects(t)
	ctx := t.Context()
	tx := s.pgxTx(h)

	n, err := tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"v"},
		pgx.CopyFromRows([][]any{{"copied 1"}, {"copied 2"}}))
	require.NoError(t, err)
	require.Equal(t, int64(2), n)

	batch := &pgx.Batch{}
	batch.Queue("INSERT INTO effects VALUES ($1)", "batched")
	batch.Queue("SELECT count(*) FROM effects").QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
	require.NoError(t, tx.SendBatch(ctx, batch).Close())
	require.Equal(t, int64(3), n)

	large := tx.LargeObjects()
	oid, err := large.Create(ctx, 0)
	require.NoError(t, err)
	object, err := large.Open(ctx, oid, pgx.LargeObjectModeWrite)
	require.NoError(t, err)
	_, err = object.Write([]byte("large"))
	require.NoError(t, err)

	_, err = tx.Prepare(ctx, "one more", "INSERT INTO effects VALUES ($1)")
	require.NoError(t, err)
	s.do(tx, "one more", "prepared")

	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, []string{"batched", "copied 1", "copied 2", "prepared"}, settled(true))
	require.Equal(t, "large", pgtest.One[string](s.DB, "SELECT convert_from(lo_get($1), 'UTF8')", oid))
}

// Who asks late gets nothing, and a query that is refused has rows that say so, whatever they are asked.
func TestTransactionAfterTheEnd(t *testing.T) {
	s, h, settled := effects(t)
	tx, btx := s.pgxTx(h), s.bunTx(h)
	settled(true)
	_, err := h.loan.PgxTx(t.Context())
	require.ErrorIs(t, err, ErrEnded)
	_, err = h.loan.BunTx(t.Context())
	require.ErrorIs(t, err, ErrEnded)
	_, err = btx.ExecContext(t.Context(), "SELECT 1")
	require.ErrorIs(t, err, sql.ErrTxDone)
	require.ErrorIs(t, btx.Rollback(), sql.ErrTxDone)

	rows, err := tx.Query(t.Context(), "SELECT 1")
	require.Error(t, err)
	require.Empty(t, rows.FieldDescriptions())
	require.Equal(t, err, rows.Scan())
	require.Equal(t, err, rows.Err())
	require.Equal(t, err, tx.QueryRow(t.Context(), "SELECT 1").Scan())
}

func TestTransactionsHaveTheirIsolation(t *testing.T) {
	s, h, settled := effects(t)
	s.bunTx(h)
	lane := h.loan.lane
	_, err := lane.db.WithQueryHook(&ticket{loan: &h.loan}).BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	require.ErrorContains(t, err, "isolation level already")
	require.Empty(t, settled(true))
}

// A handler gets the planner that its database is set up with, and the lane its own back.
func TestHandlerHasThePlannersDefaults(t *testing.T) {
	s := newStage(t)
	s.Alter("enable_bitmapscan = off")
	s.Enqueue(2, "a")
	l := s.lane()
	planner := func(c interface {
		QueryRow(context.Context, string, ...any) pgx.Row
	},
	) (set []string) {
		t.Helper()
		for _, p := range plannerSettings {
			var v string
			require.NoError(t, c.QueryRow(t.Context(), "SELECT current_setting($1)", p[0]).Scan(&v))
			set = append(set, p[0]+"="+v)
		}
		return set
	}
	own := planner(l.Conn())
	for _, p := range plannerSettings {
		require.Contains(t, own, p[0]+"="+p[1])
	}
	usual := planner(s.Session().Conn)
	require.Contains(t, usual, "enable_bitmapscan=off")
	require.Contains(t, usual, "enable_seqscan=on")

	h := s.claim(l, "a")
	require.Equal(t, usual, planner(s.pgxTx(h)))
	require.NoError(t, l.Undo(t.Context()))
	require.Equal(t, own, planner(l.Conn()))
	s.end(l, retryIn(h, 0)...)

	h = s.claim(l, "a")
	require.Equal(t, usual, planner(s.pgxTx(h)))
	h = s.step(l, succeed(h), &Request{Key: group("a")})
	require.Equal(t, own, planner(l.Conn()))
	require.Equal(t, usual, planner(s.pgxTx(h)))
}

// uses are ways to begin a transaction and to use it.
var uses = map[string]func(context.Context, *Hold) error{
	"pgx": func(ctx context.Context, h *Hold) error {
		tx, err := h.loan.PgxTx(ctx)
		if err == nil { // it has begun before
			_, err = tx.Exec(ctx, "SELECT 1")
		}
		return err
	},
	"bun": func(ctx context.Context, h *Hold) error {
		tx, err := h.loan.BunTx(ctx)
		if err == nil { // it does not begin with the context's end
			_, err = tx.ExecContext(ctx, "SELECT 1")
		}
		return err
	},
}
