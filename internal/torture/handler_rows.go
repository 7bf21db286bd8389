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

// manyRows is how many rows are kept open: so few that the server has sent all of them, and is idle.
const manyRows = 20

// rows calls the sink twice, as a slow handler does, between the rows of a query. No heartbeat can pass while they are
// open.
func (a *attempt) rows(ctx context.Context) error {
	token, err := a.job.Fence(ctx)
	if err != nil {
		return err
	}
	a.note(evFence, token, "-")
	rows, done, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	a.note(evRows, 0, "-")
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
	case n != manyRows:
		return errors.New("rows are missing")
	}
	return nil
}

// open asks for rows, and returns what closes them.
func (a *attempt) open(ctx context.Context) (rows, func(), error) {
	sql := fmt.Sprintf("SELECT n FROM generate_series(1, %d) n", manyRows)
	if a.Do == doRows || !a.alone { // a job of a slice has a savepoint of its own by pgx
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
