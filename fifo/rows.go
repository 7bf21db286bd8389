package fifo

import (
	"context"
	"database/sql"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/array"
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
	answer, err := q.tx.QueryContext(ctx, schema.Bare(query), withTexts(args)...)
	if err != nil {
		return nil, err
	}
	return sqlRows{answer}, nil
}

type sqlRows struct{ *sql.Rows }

func (r sqlRows) Close() { _ = r.Rows.Close() }

type sqlRow func(dest ...any) error

func (scan sqlRow) Scan(dest ...any) error { return scan(dest...) }

// withTexts returns the arguments of a statement with arrays as texts: not every driver of database/sql takes slices.
func withTexts(args []any) []any {
	args = slices.Clone(args)
	for i, arg := range args {
		args[i] = withText(arg)
	}
	return args
}

// withText returns an array as a text, or nil for one that is NULL, and other arguments as they are.
func withText(arg any) any {
	var text []byte
	switch items := arg.(type) {
	case []string:
		text = array.Of(items, array.Text)
	case []*string:
		text = array.Of(items, func(to []byte, s *string) []byte {
			if s == nil {
				return append(to, "NULL"...)
			}
			return array.Text(to, *s)
		})
	case [][]byte:
		text = array.Of(items, func(to, b []byte) []byte {
			if b == nil {
				return append(to, "NULL"...)
			}
			return append(hex.AppendEncode(append(to, `"\\x`...), b), '"')
		})
	case []bool:
		text = array.Of(items, strconv.AppendBool)
	case []int32:
		text = array.Of(items, array.Int)
	case []int64:
		text = array.Of(items, array.Int)
	default:
		return arg
	}
	if text == nil {
		return nil
	}
	return string(text)
}
