package groups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
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
