package groups

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// PgxTx returns a transaction nested in the one that holds the job. What is written through it is committed with the
// job's success, and undone if the attempt fails, whether or not it was committed by itself; Rollback undoes it alone.
// It returns ErrEnded after the job has ended.
func (l *Loan) PgxTx(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := ctx.Err(); err != nil { // pgx would close the connection
		return nil, fmt.Errorf("groups: begin: %w", err)
	}
	begin, err := l.open()
	if err != nil {
		return nil, err
	}
	tx, err := l.lane.conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return nil, fmt.Errorf("groups: begin: %w", err)
	}
	return &nestedTx{Tx: tx, loan: l}, nil
}

// nestedTx ends a savepoint where pgx.Tx would end the transaction, and is closed when its job ends: whoever kept it
// would write into the next job's transaction.
type nestedTx struct {
	pgx.Tx
	loan   *Loan
	closed bool
}

func (t *nestedTx) err() error {
	t.loan.mu.Lock()
	defer t.loan.mu.Unlock()
	if t.closed || t.loan.ended {
		return pgx.ErrTxClosed
	}
	return nil
}

func (t *nestedTx) Commit(ctx context.Context) error { return t.end(ctx, false) }

func (t *nestedTx) Rollback(ctx context.Context) error { return t.end(ctx, true) }

func (t *nestedTx) end(ctx context.Context, rollback bool) error {
	if err := t.err(); err != nil {
		return err
	}
	t.closed = true
	return endSavepoint(ctx, t.loan.lane.wire, t.Conn(), rollback)
}

func (t *nestedTx) Begin(ctx context.Context) (pgx.Tx, error) {
	if err := t.err(); err != nil {
		return nil, err
	}
	return t.Tx.Begin(ctx)
}

func (t *nestedTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	if err := t.err(); err != nil {
		return nil, err
	}
	return t.Tx.Prepare(ctx, name, sql)
}

func (t *nestedTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if err := t.err(); err != nil {
		return pgconn.CommandTag{}, err
	}
	return t.Tx.Exec(ctx, sql, args...)
}

func (t *nestedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if err := t.err(); err != nil {
		return failedRows{err: err}, err
	}
	return t.Tx.Query(ctx, sql, args...)
}

func (t *nestedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if err := t.err(); err != nil {
		return failedRows{err: err}
	}
	return t.Tx.QueryRow(ctx, sql, args...)
}

func (t *nestedTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if err := t.err(); err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return t.Tx.SendBatch(ctx, b)
}

func (t *nestedTx) CopyFrom(
	ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource,
) (int64, error) {
	if err := t.err(); err != nil {
		return 0, err
	}
	return t.Tx.CopyFrom(ctx, table, columns, src)
}

// failedRows are the rows of a query that was not made: pgx's own collect functions are called without looking at
// Query's error.
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
