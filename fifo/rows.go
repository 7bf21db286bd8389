package fifo

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// A rowQuerier is what migrations.Check takes.
type rowQuerier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A querier runs statements with parameters: on a pool, or in a transaction of pgx or of database/sql.
type querier interface {
	rowQuerier
	query(ctx context.Context, sql string, args ...any) (rows, error)
}

// rows are an answer of either.
type rows interface {
	row
	Next() bool
	Err() error
	Close()
}

type row interface {
	Scan(dest ...any) error
}

// each runs a statement, and calls f for each row of its answer.
func each(ctx context.Context, db querier, sql string, f func(row) error, args ...any) error {
	answer, err := db.query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer answer.Close()
	for answer.Next() {
		if err := f(answer); err != nil {
			return err
		}
	}
	return answer.Err()
}

// A pgxSession is a *pgxpool.Pool or a pgx.Tx.
type pgxSession struct {
	db interface {
		rowQuerier
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	}
}

func (s pgxSession) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return s.db.QueryRow(ctx, sql, args...)
}

func (s pgxSession) query(ctx context.Context, sql string, args ...any) (rows, error) {
	return s.db.Query(ctx, sql, args...)
}

// A sqlQuerier is a transaction of database/sql.
type sqlQuerier struct{ tx Tx }

func (q sqlQuerier) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	answer, err := q.tx.QueryContext(ctx, query, args...)
	return sqlRow{answer, err}
}

func (q sqlQuerier) query(ctx context.Context, query string, args ...any) (rows, error) {
	args, err := withTexts(args)
	if err != nil {
		return nil, err
	}
	answer, err := q.tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{answer}, nil
}

// withTexts returns the arguments with arrays as texts: not every driver of database/sql takes slices.
func withTexts(args []any) ([]any, error) {
	types, args := pgtype.NewMap(), slices.Clone(args)
	for i, arg := range args {
		switch arg.(type) {
		case []string, []*string, [][]byte, []bool, []int32, []int64:
			array, _ := types.TypeForValue(arg)
			text, err := types.Encode(array.OID, pgtype.TextFormatCode, arg, nil)
			if err != nil {
				return nil, err
			}
			if args[i] = nil; text != nil {
				args[i] = string(text)
			}
		}
	}
	return args, nil
}

type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() }

type sqlRow struct {
	rows *sql.Rows
	err  error
}

func (r sqlRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer func() { _ = r.rows.Close() }()
	if !r.rows.Next() {
		return errors.Join(sql.ErrNoRows, r.rows.Err())
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	return r.rows.Close()
}
