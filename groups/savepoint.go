package groups

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
)

// A handler gets the lane's transaction as one nested in it: its Commit and Rollback end a savepoint. Around that one
// the library keeps another, which is undone when the attempt fails and released when it succeeds; the release fails
// if the transaction is no longer the one that claimed. Both are made when a handler first asks.
const (
	outerSavepoint = "pgfifo"
	innerSavepoint = "pgfifo_tx"
)

// ErrEnded is returned when a transaction is asked for after its job has ended.
var ErrEnded = errors.New("groups: the job has ended, and its transaction with it")

// open returns the SQL that opens a transaction for the handler.
func (h *Hold) open() (string, error) {
	if h.ended {
		return "", ErrEnded
	}
	if h.opened {
		return "SAVEPOINT " + innerSavepoint, nil
	}
	h.opened = true
	return "SAVEPOINT " + outerSavepoint + handlerSettings + "; SAVEPOINT " + innerSavepoint, nil
}

// PgxTx returns a transaction nested in the one that holds the job. What is written through it is committed with the
// job's success, and undone if the attempt fails, whether or not it was committed by itself; Rollback undoes it alone.
// It returns ErrEnded after the job has ended.
func (h *Hold) PgxTx(ctx context.Context) (pgx.Tx, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := ctx.Err(); err != nil { // pgx would close the connection
		return nil, fmt.Errorf("groups: begin: %w", err)
	}
	begin, err := h.open()
	if err != nil {
		return nil, err
	}
	tx, err := h.lane.conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: begin})
	if err != nil {
		return nil, fmt.Errorf("groups: begin: %w", err)
	}
	return &nestedTx{Tx: tx, wire: h.lane.wire}, nil
}

// BunTx is PgxTx for bun. Every call returns the same transaction until that is committed or rolled back.
func (h *Hold) BunTx(ctx context.Context) (bun.Tx, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return bun.Tx{}, ErrEnded
	}
	if h.bunTx != nil {
		return *h.bunTx, nil
	}
	// Not ctx itself: database/sql would roll back when it ends, beside the handler's own use of the connection.
	tx, err := h.lane.bun.db.BeginTx(context.WithValue(context.WithoutCancel(ctx), holdKey{}, h), nil)
	if err != nil {
		return bun.Tx{}, fmt.Errorf("groups: begin: %w", err)
	}
	h.bunTx = &tx
	return tx, nil
}

// Lend runs a handler, which may take the held transaction meanwhile; heartbeats go on beside it. It returns an error
// if what the handler did cannot be committed: a statement failed that the handler did not roll back, the handler ended
// the transaction, or it left rows open. It asks the server nothing.
func (l *Lane) Lend(handler func()) error {
	l.wire.lend()
	l.since.Store(time.Now().UnixNano())
	defer l.since.Store(0)
	defer l.wire.reclaim()
	handler()
	l.hold.end() // closes what database/sql has open
	if open := l.wire.reclaim(); open {
		_ = l.conn.Close()
		return fmt.Errorf("%w: the handler returned with rows or a batch of its transaction still open", ErrNotHeld)
	}
	if l.Closed() {
		return ErrLost
	}
	switch l.pg().TxStatus() {
	case 'T':
		return nil
	case 'E':
		return errors.New("groups: a statement failed in the job's transaction and the handler did not roll it back")
	default:
		return fmt.Errorf("%w: the handler ended the job's transaction", ErrNotHeld)
	}
}

// Undo rolls back what the handler wrote through the transaction, and makes the transaction usable to record why.
// It returns ErrNotHeld if the transaction is not the one that claimed any more; the lane holds nothing then.
func (l *Lane) Undo(ctx context.Context) error {
	if l.Closed() {
		l.forget()
		return ErrLost
	}
	if !l.hold.taken() && l.pg().TxStatus() == 'T' {
		return nil
	}
	if _, err := l.pg().Exec(ctx, "ROLLBACK TO SAVEPOINT "+outerSavepoint).ReadAll(); err != nil {
		l.forget()
		l.rollback(ctx)
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}

// nestedTx ends a savepoint where pgx.Tx would end the transaction.
type nestedTx struct {
	pgx.Tx
	wire   *wire
	closed bool
}

func (t *nestedTx) Commit(ctx context.Context) error { return t.end(ctx, false) }

func (t *nestedTx) Rollback(ctx context.Context) error { return t.end(ctx, true) }

func (t *nestedTx) end(ctx context.Context, rollback bool) error {
	if t.closed {
		return pgx.ErrTxClosed
	}
	t.closed = true
	return endSavepoint(ctx, t.wire, t.Conn(), rollback)
}

func endSavepoint(ctx context.Context, w *wire, conn *pgx.Conn, rollback bool) error {
	w.enter() // before the status is read
	defer w.leave()
	const undo = "ROLLBACK TO SAVEPOINT " + innerSavepoint + "; RELEASE SAVEPOINT " + innerSavepoint
	failed := conn.PgConn().TxStatus() == 'E'
	sql := "RELEASE SAVEPOINT " + innerSavepoint
	if rollback || failed {
		sql = undo
	}
	if _, err := conn.Exec(ctx, sql); err != nil {
		return err
	}
	if failed && !rollback {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// laneDB is a bun.DB whose transactions are nested in those of lanes: the lane comes with the context.
type laneDB struct{ db *bun.DB }

type holdKey struct{}

func newLaneDB() *laneDB {
	db := sql.OpenDB(laneConnector{})
	db.SetMaxIdleConns(-1) // every transaction asks the connector, which looks at its context
	return &laneDB{bun.NewDB(db, pgdialect.New())}
}

type laneConnector struct{}

func (laneConnector) Connect(ctx context.Context) (driver.Conn, error) {
	h, ok := ctx.Value(holdKey{}).(*Hold)
	if !ok {
		return nil, errors.New("groups: a job's transaction is begun by its job only")
	}
	return laneConn{h.lane.conn, h}, nil
}

func (laneConnector) Driver() driver.Driver { return stdlib.GetDefaultDriver() }

// laneConn is a lane's connection without the power to end it.
type laneConn struct {
	*stdlib.Conn
	hold *Hold
}

func (c laneConn) Close() error { return nil }

func (c laneConn) ResetSession(context.Context) error { return nil }

// The driver looks at the connection before pgx's tracers hear of a statement. No heartbeat may run then either.

func (c laneConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.hold.lane.wire.enter()
	defer c.hold.lane.wire.leave()
	return c.Conn.ExecContext(ctx, query, args)
}

func (c laneConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.hold.lane.wire.enter()
	defer c.hold.lane.wire.leave()
	return c.Conn.QueryContext(ctx, query, args)
}

func (c laneConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.hold.lane.wire.enter()
	defer c.hold.lane.wire.leave()
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

func (s laneStmt) Close() error {
	s.conn.hold.lane.wire.enter()
	defer s.conn.hold.lane.wire.leave()
	return s.Stmt.Close()
}

func (s laneStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.query, args)
}

func (s laneStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.query, args)
}

func (c laneConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if opts.ReadOnly || opts.Isolation != driver.IsolationLevel(sql.LevelDefault) {
		return nil, errors.New("groups: a job's transaction has its isolation level already")
	}
	begin, err := c.hold.open() // BunTx holds the lock
	if err != nil {
		return nil, err
	}
	if _, err := c.Conn.Conn().Exec(ctx, begin); err != nil {
		return nil, err
	}
	return laneTx{c}, nil
}

// laneTx ends a savepoint where driver.Tx would end the transaction. database/sql gives it no context.
type laneTx struct{ conn laneConn }

func (t laneTx) Commit() error { return t.end(false) }

func (t laneTx) Rollback() error { return t.end(true) }

func (t laneTx) end(rollback bool) error {
	h := t.conn.hold
	h.mu.Lock()
	h.bunTx = nil
	ended := h.ended
	h.mu.Unlock()
	if ended {
		return nil // the savepoint goes with the job's transaction
	}
	return endSavepoint(context.Background(), h.lane.wire, t.conn.Conn.Conn(), rollback)
}
