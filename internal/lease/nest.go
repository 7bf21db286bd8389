package lease

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// How a handler gets the transactions of a Loan, and ends them.

// ErrEnded is returned when a transaction is asked for after its job has ended.
var ErrEnded = errors.New("lease: the job has ended, and its transaction with it")

// A nest is a transaction that a handler has, by pgx or bun.
type nest struct {
	savepoint string
	around    *nest // that it was begun on with pgx, or nil
	closed    bool
	cut       bool // it has ended with one around it that was rolled back
	merged    bool // its savepoint has gone with one around it that was released
}

// errNotUndone says that a Rollback could not be sent. Nothing of the handler's may be committed then.
var errNotUndone = errors.New("lease: a transaction of the handler's could not be rolled back")

var errMerged = fmt.Errorf("%w: the one around it has been committed", errNotUndone)

// PgxTx returns a transaction nested in the one that holds the job, as Job.PgxTx of package fifo has it. It returns
// ErrEnded after the job has ended.
func (l *Loan) PgxTx(ctx context.Context) (pgx.Tx, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("lease: begin: %w", err)
	}
	if err := l.borrow(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pgxTx.open() && !l.ended {
		if err := l.there(); err != nil {
			return nil, err
		}
		return l.pgxTx, nil
	}
	n, begin, err := l.open()
	if err != nil {
		return nil, err
	}
	// If the context ended meanwhile, pgx would close the connection. The commit query is that of endLargeObjects.
	tx, err := l.lane.conn.Conn().BeginTx(context.WithoutCancel(ctx),
		pgx.TxOptions{BeginQuery: begin, CommitQuery: "-- ended"})
	if err != nil {
		l.shut(n) // whether its savepoint is there is not known
		return nil, fmt.Errorf("lease: begin: %w", err)
	}
	l.pgxTx = &nestedTx{Tx: tx, loan: l, nest: n}
	return l.pgxTx, nil
}

// BunTx is PgxTx for bun. The query hooks of the Dialer's DB may use the DB, and take as long as they like. A hook that
// asks for the transaction while it is being begun, with the context that it was given, gets an error. Anybody else
// waits, until the context ends.
func (l *Loan) BunTx(ctx context.Context) (bun.Tx, error) {
	if err := l.borrow(ctx); err != nil {
		return bun.Tx{}, err
	}
	t := &ticket{loan: l, done: make(chan struct{})}
	if tx, err := l.presentBunTx(ctx, t); tx != nil || err != nil {
		return cmp.Or(tx, &nestedBun{}).Tx, err
	}
	defer l.begun(t)
	db := l.lane.db
	if db == nil {
		return bun.Tx{}, errNoDB
	}
	if db.Stats().MaxOpenConnections > 0 { // handlers that use the DB beside their transactions would wait for ever
		return bun.Tx{}, errMaxOpen
	}
	ctx = context.WithValue(ctx, beginKey{}, t)
	// Not ctx itself: database/sql would roll back when it ends, beside the handler's own use of the connection.
	tx, err := db.WithQueryHook(t).BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return bun.Tx{}, fmt.Errorf("lease: begin: %w", err)
	}
	if !t.used.Load() { // it is a transaction of its own, on a connection that the DB has kept
		_ = tx.Tx.Rollback()
		return bun.Tx{}, errIdle
	}
	if err := l.keepBunTx(&nestedBun{tx, t.nest}); err != nil {
		_ = tx.Tx.Rollback() // no SQL, see laneTx
		return bun.Tx{}, err
	}
	return tx, nil
}

// keepBunTx returns an error if the transaction has ended while a query hook was called.
func (l *Loan) keepBunTx(tx *nestedBun) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ErrEnded
	case tx.nest.closed:
		return sql.ErrTxDone
	}
	l.bun.replace(tx)
	return nil
}

// presentBunTx returns the transaction that is open, or nil if it is to be begun with the ticket. It waits for one that
// another goroutine begins.
func (l *Loan) presentBunTx(ctx context.Context, t *ticket) (*nestedBun, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.bun.begin != nil && !l.ended {
		other := l.bun.begin
		if ctx.Value(beginKey{}) == other {
			return nil, errBegin
		}
		l.mu.Unlock()
		var err error
		select {
		case <-other.done:
		case <-ctx.Done():
			err = fmt.Errorf("lease: begin: %w", ctx.Err())
		}
		l.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	switch {
	case l.ended:
		return nil, ErrEnded
	case l.bun.last.open():
		return l.bun.last, l.there()
	}
	l.bun.begin = t
	return nil, nil
}

func (l *Loan) begun(t *ticket) {
	l.mu.Lock()
	l.bun.begin = nil
	l.mu.Unlock()
	close(t.done)
}

func (l *Loan) opened(n int) {
	l.mu.Lock()
	l.bun.rows += n
	l.mu.Unlock()
}

// open returns another transaction for the handler, and the SQL that opens it.
func (l *Loan) open() (*nest, string, error) {
	if l.ended {
		return nil, "", ErrEnded
	}
	first := len(l.stack) == 0
	n, sql := l.savepoints.open()
	if first && len(l.lane.hold.Rest) > 0 && !l.lane.batch {
		l.lane.batch, sql = true, "SAVEPOINT "+batchSavepoint+"; "+sql
	}
	return n, sql, nil
}

// nest opens another transaction for the handler.
func (l *Loan) nest(ctx context.Context) (*nest, error) {
	n, begin, err := l.open()
	if err != nil {
		return nil, err
	}
	if _, err := l.lane.conn.Conn().Exec(ctx, begin); err != nil {
		l.shut(n) // whether its savepoint is there is not known
		return nil, err
	}
	return n, nil
}

// there returns an error if the handler has ended the transaction by hand: what it wrote would be committed at once.
func (l *Loan) there() error {
	if l.lane.pg().TxStatus() == 'I' {
		return errEndedByHand
	}
	return nil
}

var errEndedByHand = fmt.Errorf("%w: the handler ended the job's transaction", ErrNotHeld)

// close ends a transaction of the handler's. A failed one is rolled back, and with it those that were begun in it.
func (l *Loan) close(ctx context.Context, n *nest, rollback bool) error {
	conn := l.lane.conn.Conn()
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return ErrEnded
	}
	l.busy++ // whoever ends the loan meanwhile ends the connection: the next job has savepoints of the same names
	defer l.leave()
	gone := n.closed // the one around it was rolled back
	failed := gone || conn.PgConn().TxStatus() == 'E'
	undo := !gone && (rollback || failed)
	l.written = l.lane.wire.written() || l.written
	release, err := l.savepoints.close(n, undo, failed)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	switch {
	case undo:
		if err := l.undo(ctx, n); err != nil {
			return err
		}
	case release: // if it cannot be sent, the savepoint stays, and nobody knows its name any more
		if _, err := conn.Exec(ctx, "RELEASE SAVEPOINT "+n.savepoint); err != nil && conn.PgConn().TxStatus() == 'E' {
			return err
		}
	}
	if failed && !rollback {
		return pgx.ErrTxCommitRollback
	}
	return nil
}

// undo goes back to a savepoint, also if the handler's context has ended: pgx ends the connection if it cannot roll
// back, and users of its transactions rely on that. If it is not done, nothing of the handler's is committed.
func (l *Loan) undo(ctx context.Context, n *nest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.lane.bounds.Silence)
	defer cancel()
	_, err := l.lane.conn.Conn().Exec(ctx, "ROLLBACK TO SAVEPOINT "+n.savepoint)
	if err != nil {
		l.undoFailed(nil, err)
	}
	return err
}

// undoFailed notes that something which the handler has rolled back is not undone. If it was in a transaction that has
// ended since, it is undone with that.
func (l *Loan) undoFailed(within *nest, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if within == nil || !within.closed {
		l.undoErr = fmt.Errorf("%w: %w", errNotUndone, why)
	}
}

// passes looks at a statement of the handler's that has succeeded: it may be about a savepoint.
func (l *Loan) passes(ctx context.Context, sql string) {
	word, rest := firstWord(sql)
	verb := strings.ToUpper(word)
	if verb != "SAVEPOINT" && verb != "RELEASE" && verb != "ROLLBACK" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(ctx, verb, savepointName(rest))
}

// Forgone reports whether the last thing that the handler did with its transaction was to roll back what it had
// written, although no statement had failed. It knows the rows that the server counts for an INSERT, an UPDATE and the
// like, or for the last one of a text of several statements: not those that a function has written, say. Transactions
// that were open side by side count as one.
func (l *Loan) Forgone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.forgone
}
