package groups

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// A handler gets the lane's transaction as one nested in it: its Commit and Rollback end a savepoint. Around that one
// the library keeps another, which is undone when the attempt fails and released when it succeeds; the release fails
// if the transaction is no longer the one that claimed. Both are made when a handler first asks.
const (
	outerSavepoint = "pgfifo"
	innerSavepoint = "pgfifo_tx"

	releaseOuter = "RELEASE SAVEPOINT " + outerSavepoint
	undoOuter    = "ROLLBACK TO SAVEPOINT " + outerSavepoint
)

// ErrEnded is returned when a transaction is asked for after its job has ended.
var ErrEnded = errors.New("groups: the job has ended, and its transaction with it")

// open returns the SQL that opens a transaction for the handler.
func (l *Loan) open() (string, error) {
	if l.ended {
		return "", ErrEnded
	}
	if l.opened {
		return "SAVEPOINT " + innerSavepoint, nil
	}
	l.opened = true
	return "SAVEPOINT " + outerSavepoint + handlerSettings + "; SAVEPOINT " + innerSavepoint, nil
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
