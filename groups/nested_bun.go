package groups

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
)

// BunTx is PgxTx for bun. Every call returns the same transaction until that is committed or rolled back.
func (l *Loan) BunTx(ctx context.Context) (bun.Tx, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return bun.Tx{}, ErrEnded
	}
	if l.bunTx != nil {
		return *l.bunTx, l.there()
	}
	db := l.lane.db
	if db == nil {
		return bun.Tx{}, errNoDB
	}
	if db.Stats().MaxOpenConnections > 0 { // handlers that use the DB beside their transactions would wait for ever
		return bun.Tx{}, errMaxOpen
	}
	// Not ctx itself: database/sql would roll back when it ends, beside the handler's own use of the connection.
	tx, err := db.BeginTx(context.WithValue(context.WithoutCancel(ctx), loanKey{}, l), nil)
	if err != nil {
		return bun.Tx{}, fmt.Errorf("groups: begin: %w", err)
	}
	l.bunTx = &tx
	return tx, nil
}

var (
	errNoDB    = errors.New("groups: the Dialer has no DB")
	errMaxOpen = errors.New("groups: a DB with SetMaxOpenConns has no job's transactions: bound its pool instead")
)

type loanKey struct{}

// Lending returns a Connector for a Dialer's DB: a job's transaction, begun on it, is nested in that of its lane. All
// else goes to base. The sql.DB must keep no idle connections (SetMaxIdleConns), so that each transaction asks.
func Lending(base driver.Connector) driver.Connector { return lending{base} }

type lending struct{ driver.Connector }

func (c lending) Connect(ctx context.Context) (driver.Conn, error) {
	if l, ok := ctx.Value(loanKey{}).(*Loan); ok {
		return laneConn{l.lane.conn, l}, nil
	}
	return c.Connector.Connect(ctx)
}

// laneConn is a lane's connection without the power to end it.
type laneConn struct {
	*stdlib.Conn
	loan *Loan
}

func (c laneConn) Close() error { return nil }

// ResetSession and IsValid keep it from being used for anything else.
func (c laneConn) ResetSession(context.Context) error { return driver.ErrBadConn }

func (c laneConn) IsValid() bool { return false }

// A goroutine of a handler that has returned must not begin a statement any more, and one that is in the middle of it
// is cut off: database/sql would wait for it.

func (c laneConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.loan.enter(); err != nil {
		return nil, err
	}
	defer c.loan.leave()
	return c.Conn.ExecContext(ctx, query, args)
}

func (c laneConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.loan.enter(); err != nil {
		return nil, err
	}
	defer c.loan.leave()
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	c.loan.opened(1)
	return laneRows{rows.(*stdlib.Rows), c.loan}, nil
}

func (c laneConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.loan.enter(); err != nil {
		return nil, err
	}
	defer c.loan.leave()
	stmt, err := c.Conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return laneStmt{stmt.(*stdlib.Stmt), c, query}, nil
}

// laneStmt is prepared on a lane's connection, and used as laneConn is.
type laneStmt struct {
	*stdlib.Stmt
	conn  laneConn
	query string // also its name
}

func (s laneStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

func (s laneStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

type laneRows struct {
	*stdlib.Rows
	loan *Loan
}

func (r laneRows) Next(dest []driver.Value) error {
	if err := r.loan.enter(); err != nil {
		return err
	}
	defer r.loan.leave()
	return r.Rows.Next(dest)
}

// Close is called once.
func (r laneRows) Close() error {
	defer r.loan.opened(-1)
	return r.Rows.Close()
}

func (l *Loan) opened(n int) {
	l.mu.Lock()
	l.rows += n
	l.mu.Unlock()
}

func (c laneConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.ReadOnly || opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
		return nil, errors.New("groups: a job's transaction has its isolation level already")
	}
	n, begin, err := c.loan.open() // BunTx holds the lock
	if err != nil {
		return nil, err
	}
	if _, err := c.Conn.Conn().Exec(ctx, begin); err != nil {
		c.loan.abandon()
		return nil, err
	}
	return laneTx{c.loan, n}, nil
}

// laneTx ends a savepoint where driver.Tx would end the transaction. database/sql gives it no context.
type laneTx struct {
	loan *Loan
	nest *nest
}

func (t laneTx) Commit() error { return t.end(false) }

func (t laneTx) Rollback() error { return t.end(true) }

func (t laneTx) end(rollback bool) error {
	l := t.loan
	l.mu.Lock()
	l.bunTx = nil
	ended := l.ended
	l.mu.Unlock()
	if ended {
		return nil // the savepoint goes with the job's transaction
	}
	return l.close(context.Background(), t.nest, rollback)
}
