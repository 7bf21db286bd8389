package lease

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/conforming"
)

// nestedBun is a bun.Tx that BunTx has returned.
type nestedBun struct {
	bun.Tx
	nest *nest
}

func (t *nestedBun) open() bool { return t != nil && !t.nest.closed }

// bunTxs are those of a Loan, one after the other.
type bunTxs struct {
	last  *nestedBun
	begin *ticket   // by which the next one is begun now
	gone  []*sql.Tx // which have not ended by themselves, and are open as far as database/sql knows
	rows  int       // that are open
}

// replace makes tx the last one; nil: there is none.
func (b *bunTxs) replace(tx *nestedBun) {
	if b.last.open() || b.last != nil && b.last.nest.cut {
		b.gone = append(b.gone, b.last.Tx.Tx)
	}
	b.last = tx
}

// beginKey is for the ticket of a BEGIN, in the context that its query hooks are given.
type beginKey struct{}

var (
	errNoDB    = errors.New("lease: the Dialer has no DB")
	errMaxOpen = errors.New("lease: a DB with SetMaxOpenConns has no job's transactions: bound its pool instead")
	errBegin   = errors.New("lease: a query hook has no job's transaction while that is begun")
	errIdle    = errors.New("lease: a DB with SetMaxIdleConns has no job's transactions: its pool keeps connections")
)

// With a ticket, the connection that a sql.DB gets for a BEGIN is that of a loan's lane. The ticket is the last query
// hook before the BEGIN and the first one after: so it is used for the BEGIN, whatever the others make of the context,
// and whatever they ask the DB.
type ticket struct {
	loan *Loan
	nest *nest // that the BEGIN has opened
	sold bool
	used atomic.Bool   // the transaction is begun on the lane
	void atomic.Bool   // the BEGIN is over
	done chan struct{} // BunTx has returned
}

type ticketKey struct{}

// bunUndo begins what bun sends to roll back what was begun on one of its transactions.
const bunUndo = "ROLLBACK TO SAVEPOINT SP_"

// BeforeQuery adds the ticket to the context, the first time. bun rolls back with the context of the beginning, which
// may have ended: that is done all the same, as PgxTx does.
func (t *ticket) BeforeQuery(ctx context.Context, e *bun.QueryEvent) context.Context {
	switch {
	case t.sold && strings.HasPrefix(e.Query, bunUndo):
		return context.WithoutCancel(ctx)
	case t.sold:
		return ctx
	}
	t.sold = true
	return context.WithValue(ctx, ticketKey{}, t)
}

// AfterQuery keeps what the other hooks ask the DB from being asked on the lane.
func (t *ticket) AfterQuery(_ context.Context, e *bun.QueryEvent) {
	t.void.Store(true)
	if e.Err != nil && strings.HasPrefix(e.Query, bunUndo) {
		t.loan.undoFailed(t.nest, e.Err)
	}
}

// Lending returns a Connector for a Dialer's DB: a job's transaction, begun on it, is nested in that of its lane. All
// else goes to the pool. The sql.DB must keep no idle connections (SetMaxIdleConns), so that each transaction asks.
func Lending(pool *pgxpool.Pool) driver.Connector { return lending{stdlib.GetPoolConnector(pool)} }

type lending struct{ driver.Connector }

func (c lending) Connect(ctx context.Context) (driver.Conn, error) {
	if t, ok := ctx.Value(ticketKey{}).(*ticket); ok && !t.void.Load() {
		return laneConn{t.loan.lane.conn, t}, nil
	}
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// Each is looked at: the settings may differ between them, and change.
	if err := conforming.Check(conn.(*stdlib.Conn).Conn().PgConn()); err != nil {
		_ = conn.Close() // back to the pool
		return nil, err
	}
	return conn, nil
}

// laneConn is a lane's connection without the power to end it.
type laneConn struct {
	*stdlib.Conn
	*ticket
}

func (c laneConn) Close() error { return nil }

// ResetSession and IsValid keep it from being used for anything else.
func (c laneConn) ResetSession(context.Context) error { return driver.ErrBadConn }

func (c laneConn) IsValid() bool { return false }

// A goroutine of a handler that has returned must not begin a statement any more, and one that is in the middle of it
// is cut off: database/sql would wait for it.

func (c laneConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.loan.enter(c.nest); err != nil {
		return nil, err
	}
	defer c.loan.leave()
	result, err := c.Conn.ExecContext(ctx, query, args)
	if err == nil {
		c.loan.passes(ctx, query)
	}
	return result, err
}

func (c laneConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.loan.enter(c.nest); err != nil {
		return nil, err
	}
	defer c.loan.leave()
	rows, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, err
	}
	c.loan.opened(1)
	return laneRows{rows.(*stdlib.Rows), c}, nil
}

func (c laneConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.loan.enter(c.nest); err != nil {
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
	conn laneConn
}

func (r laneRows) Next(dest []driver.Value) error {
	if err := r.conn.loan.enter(r.conn.nest); err != nil {
		return err
	}
	defer r.conn.loan.leave()
	return r.Rows.Next(dest)
}

// Close is called once.
func (r laneRows) Close() error {
	defer r.conn.loan.opened(-1)
	return r.Rows.Close()
}

func (c laneConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.ReadOnly || opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
		return nil, errors.New("lease: a job's transaction has its isolation level already")
	}
	c.loan.mu.Lock()
	defer c.loan.mu.Unlock()
	n, err := c.loan.nest(ctx)
	if err != nil {
		return nil, err
	}
	c.nest = n
	c.used.Store(true)
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
	if t.loan.Ended() {
		return nil // the savepoint goes with the job's transaction
	}
	return t.loan.close(context.Background(), t.nest, rollback)
}
