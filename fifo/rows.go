package fifo

import (
	"context"
	"database/sql"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pgfifo/pgfifo/internal/schema"
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

// into reads a row into these places.
func into(dest ...any) func(row) error {
	return func(r row) error { return r.Scan(dest...) }
}

// A pgxSession is a *pgxpool.Pool, a *pgx.Conn or a pgx.Tx.
type pgxSession struct{ pgxQuerier }

type pgxQuerier interface {
	rowQuerier
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s pgxSession) query(ctx context.Context, sql string, args ...any) (rows, error) {
	return s.Query(ctx, sql, args...)
}

// A sqlQuerier is a transaction of database/sql. Its driver may be one that writes the arguments into the statement, as
// bun's own does: see schema.Bare.
type sqlQuerier struct{ tx Tx }

func (q sqlQuerier) QueryRow(ctx context.Context, query string, args ...any) pgx.Row {
	return sqlRow(func(dest ...any) error {
		found := false
		err := each(ctx, q, query, func(r row) error {
			found = true
			return r.Scan(dest...)
		}, args...)
		if err == nil && !found {
			err = sql.ErrNoRows
		}
		return err
	})
}

func (q sqlQuerier) query(ctx context.Context, query string, args ...any) (rows, error) {
	args, err := withTexts(args)
	if err != nil {
		return nil, err
	}
	answer, err := q.tx.QueryContext(ctx, schema.Bare(query), args...)
	if err != nil {
		return nil, err
	}
	return sqlRows{answer}, nil
}

type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() }

type sqlRow func(dest ...any) error

func (scan sqlRow) Scan(dest ...any) error { return scan(dest...) }

// withTexts returns the arguments of a statement with each array as a text, or nil for one that is NULL: not every
// driver of database/sql takes slices.
func withTexts(args []any) ([]any, error) {
	args = slices.Clone(args)
	types := pgtype.NewMap()
	for i, arg := range args {
		t, known := types.TypeForValue(arg)
		if !known {
			continue
		}
		if _, is := t.Codec.(*pgtype.ArrayCodec); !is {
			continue
		}
		text, err := types.Encode(t.OID, pgtype.TextFormatCode, arg, nil)
		if err != nil {
			return nil, err
		}
		if args[i] = nil; text != nil {
			args[i] = string(text)
		}
	}
	return args, nil
}
