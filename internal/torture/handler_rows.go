package torture

import (
	"context"
	"errors"
	"fmt"
)

// rows are those of pgx, of database/sql and of bun.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

// A resultSize is so many rows of so many bytes.
type resultSize struct{ rows, bytes int }

// sizes are what handlers keep open for long: so little that it has been read, and the server is idle; what a heartbeat
// reads ahead; and so much that the server waits.
var sizes = []resultSize{{20, 1}, {200, 1000}, {2500, 8000}}

// rows calls the sink twice, as a slow handler does, between the rows of a query.
func (a *attempt) rows(ctx context.Context) error {
	token, err := a.job.Fence(ctx)
	if err != nil {
		return err
	}
	a.note(evFence, token, "-")
	size := sizes[0]
	if a.readers.shutNow() {
		size = sizes[a.N%int64(len(sizes))]
	}
	rows, done, err := a.open(ctx, size)
	if err != nil {
		return err
	}
	defer done()
	a.note(evRows, int64(size.rows*size.bytes), "-")
	if !rows.Next() {
		return fmt.Errorf("no first row: %w", rows.Err())
	}
	lasting := a.lasting(ctx, token, phaseOpen)
	n := 1
	for rows.Next() {
		n++
	}
	a.note(evRead, 0, "-")
	switch {
	case lasting != nil:
		return lasting
	case rows.Err() != nil:
		return rows.Err()
	case n != size.rows:
		return errors.New("rows are missing")
	}
	return nil
}

// open asks for rows, and returns what closes them.
func (a *attempt) open(ctx context.Context, size resultSize) (rows, func(), error) {
	sql := fmt.Sprintf("SELECT repeat('.', %d) FROM generate_series(1, %d)", size.bytes, size.rows)
	if a.N%4 < 2 || !a.alone { // a job of a slice has a savepoint of its own by pgx
		list, err := a.tx.Query(ctx, sql)
		if err != nil {
			return nil, nil, err
		}
		return list, list.Close, nil
	}
	tx, err := a.job.Tx(ctx)
	if err != nil {
		return nil, nil, err
	}
	list, err := tx.QueryContext(ctx, sql)
	if err != nil {
		return nil, nil, err
	}
	return list, func() { _ = list.Close() }, nil
}
