package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// A handler gets the lane's transaction as one nested in it: a savepoint that is made when it first asks. Rollback goes
// back to that; Commit has nothing to say. When the attempt fails it is gone back to as well, and when it succeeds it
// is released; that fails if the transaction is no longer the one that claimed.
//
// A transaction that the handler asks for beside another one, or behind what it has committed, has a savepoint of its
// own, because that is to stay when it is rolled back.
const (
	outerSavepoint = "pgfifo"

	releaseOuter = "RELEASE SAVEPOINT " + outerSavepoint
	undoOuter    = "ROLLBACK TO SAVEPOINT " + outerSavepoint
)

// ErrEnded is returned when a transaction is asked for after its job has ended.
var ErrEnded = errors.New("groups: the job has ended, and its transaction with it")

// A nest is a transaction that a handler has, by pgx or bun.
type nest struct{ savepoint string }

// open returns another transaction for the handler, and the SQL that opens it.
func (l *Loan) open() (*nest, string, error) {
	if l.ended {
		return nil, "", ErrEnded
	}
	n := &nest{outerSavepoint}
	sql := "SAVEPOINT " + outerSavepoint + handlerSettings
	switch last := len(l.nests) - 1; {
	case last < 0:
	case l.undone: // the savepoint is there, and nothing behind it
		n.savepoint, sql = l.nests[last].savepoint, handlerSettings[len("; "):]
		l.nests = l.nests[:last]
	default:
		n.savepoint += "_" + strconv.Itoa(last+1)
		sql = "SAVEPOINT " + n.savepoint
	}
	l.nests, l.undone = append(l.nests, n), false
	l.nested++
	return n, sql, nil
}

// there returns an error if the handler has ended the transaction by hand: what it wrote would be committed at once.
func (l *Loan) there() error {
	if l.lane.pg().TxStatus() == 'I' {
		return errEndedByHand
	}
	return nil
}

var errEndedByHand = fmt.Errorf("%w: the handler ended the job's transaction", ErrNotHeld)

// abandon says that a transaction could not be begun. Whether its savepoint is there is not known.
func (l *Loan) abandon() { l.nested-- }

// close ends a transaction of the handler's. A failed one is rolled back.
func (l *Loan) close(ctx context.Context, n *nest, rollback bool) error {
	conn := l.lane.conn.Conn()
	l.mu.Lock()
	l.nested--
	i := slices.Index(l.nests, n) // gone if the one around it was rolled back
	failed := i < 0 || conn.PgConn().TxStatus() == 'E'
	if i >= 0 && (rollback || failed) {
		l.nests = l.nests[:i+1]
		l.undone = l.nested == 0
	}
	l.mu.Unlock()
	if i >= 0 && (rollback || failed) {
		if _, err := conn.Exec(ctx, "ROLLBACK TO SAVEPOINT "+n.savepoint); err != nil {
			return err
		}
	}
	if failed && !rollback {
		return pgx.ErrTxCommitRollback
	}
	return nil
}
