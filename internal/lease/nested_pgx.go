package lease

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// nestedTx ends a savepoint where pgx.Tx would end the transaction, and is closed when its job ends: whoever kept it
// would write into the next job's transaction. So is what was begun on it, which has a savepoint, too.
type nestedTx struct {
	pgx.Tx // the first one's
	loan   *Loan
	nest   *nest
}

func (t *nestedTx) open() bool { return t != nil && !t.nest.closed }

// enter is Loan.enter.
func (t *nestedTx) enter() error {
	if t.loan.enter(t.nest) != nil {
		return pgx.ErrTxClosed
	}
	return nil
}

func (t *nestedTx) Commit(ctx context.Context) error { return t.end(ctx, false) }

func (t *nestedTx) Rollback(ctx context.Context) error { return t.end(ctx, true) }

func (t *nestedTx) end(ctx context.Context, rollback bool) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.loan.leave()
	return t.loan.close(ctx, t.nest, rollback)
}

func (t *nestedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	t.loan.mu.Lock()
	defer t.loan.mu.Unlock()
	if t.loan.usable(t.nest) != nil {
		return nil, pgx.ErrTxClosed
	}
	n, err := t.loan.nest(ctx)
	if err != nil {
		return nil, err
	}
	n.around = t.nest
	return &nestedTx{Tx: t.Tx, loan: t.loan, nest: n}, nil
}

// LargeObjects returns what works until the job ends.
func (t *nestedTx) LargeObjects() pgx.LargeObjects {
	t.loan.mu.Lock()
	defer t.loan.mu.Unlock()
	if !slices.Contains(t.loan.large, t.Tx) {
		t.loan.large = append(t.loan.large, t.Tx)
	}
	return t.Tx.LargeObjects()
}

func (t *nestedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.loan.leave()
	return t.Tx.Prepare(ctx, name, sql)
}

func (t *nestedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.enter(); err != nil {
		return pgconn.CommandTag{}, err
	}
	defer t.loan.leave()
	tag, err := t.Tx.Exec(ctx, sql, args...)
	if err == nil {
		t.loan.passes(context.Background(), sql)
	}
	return tag, err
}

func (t *nestedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.enter(); err != nil {
		return failedRows{err: err}, err
	}
	defer t.loan.leave()
	return t.Tx.Query(ctx, sql, args...)
}

func (t *nestedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.enter(); err != nil {
		return failedRows{err: err}
	}
	defer t.loan.leave()
	return t.Tx.QueryRow(ctx, sql, args...)
}

func (t *nestedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.enter(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	defer t.loan.leave()
	return t.Tx.SendBatch(ctx, b)
}

func (t *nestedTx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource,
) (int64, error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.loan.leave()
	return t.Tx.CopyFrom(ctx, table, columns, src)
}

// failedRows are the rows of a query that was not made: pgx's own collect functions are called without looking at
// Query's error. Those of pgx.FailedBatchResults panic where a reader asks them for more than Err.
type failedRows struct{ err error }

func (r failedRows) Close()                                       {}
func (r failedRows) Err() error                                   { return r.err }
func (r failedRows) CommandTag() pgconn.CommandTag                { return pgconn.CommandTag{} }
func (r failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
func (r failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                            { return r.err }
func (r failedRows) Values() ([]any, error)                       { return nil, r.err }
func (r failedRows) RawValues() [][]byte                          { return nil }
func (r failedRows) Conn() *pgx.Conn                              { return nil }
func (r failedRows) TypeMap() *pgtype.Map                         { return nil }
