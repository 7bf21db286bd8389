package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// A handler gets the lane's transaction as one nested in it: a savepoint that is made when it first asks. Rollback goes
// back to that; Commit releases it if nothing else needs it. When the attempt fails it is gone back to as well, and
// when it succeeds it is released; that fails if the transaction is no longer the one that claimed.
//
// A transaction that the handler asks for beside another one, in another one, or behind what it has committed, has a
// savepoint of its own, because that is to stay when it is rolled back.
//
// If several jobs are held, all of that is in a savepoint of the lane's. A deferred constraint would refuse their
// COMMIT, which frees their groups before anybody can say that no worker has died; so it is checked before, and then
// the jobs are given back. So would a cursor WITH HOLD, whose query runs at COMMIT: it is closed, for nobody can read
// it any more.
//
// Of savepoints with one name, PostgreSQL goes back to the last. So the names are of this process, and no handler uses
// one by chance.
var (
	process        = strings.ToLower(rand.Text())
	outerSavepoint = "pgfifo_" + process
	batchSavepoint = "pgfifo_batch_" + process

	releaseOuter = "RELEASE SAVEPOINT " + outerSavepoint
	undoOuter    = "ROLLBACK TO SAVEPOINT " + outerSavepoint
	undoBatch    = "ROLLBACK TO SAVEPOINT " + batchSavepoint
)

// Names of prepared statements.
const (
	stmtRelease      = "pgfifo_release"
	stmtBatch        = "pgfifo_batch"
	stmtReleaseBatch = "pgfifo_release_batch"
	stmtConstraints  = "pgfifo_constraints"
	stmtCursors      = "pgfifo_cursors"
	stmtLockTable    = "pgfifo_lock_table"
	stmtWaitBehind   = "pgfifo_wait_behind"
	stmtWaitLong     = "pgfifo_wait_long"
)

var savepointSQL = map[string]string{
	stmtRelease:      releaseOuter,
	stmtBatch:        "SAVEPOINT " + batchSavepoint,
	stmtReleaseBatch: "RELEASE SAVEPOINT " + batchSavepoint,
	stmtConstraints:  "SET CONSTRAINTS ALL IMMEDIATE",
	stmtCursors:      "CLOSE ALL",
	// Somebody may keep a job open that is behind the head of a batch, and is waited for this long. A lock on the whole
	// table, of CREATE INDEX say, is waited for before, and for as long as it takes.
	stmtLockTable:  "LOCK TABLE pgfifo.jobs IN ROW EXCLUSIVE MODE",
	stmtWaitBehind: "SET LOCAL lock_timeout = '1s'",
	stmtWaitLong:   "SET LOCAL lock_timeout TO DEFAULT",
}

// ErrGivenBack is returned by Step when the jobs of a batch could not be settled, because what their handlers wrote
// cannot be committed. All of that is undone, and the jobs are as they were.
var ErrGivenBack = errors.New("lease: the batch cannot be committed, and is given back")

// ErrEnded is returned when a transaction is asked for after its job has ended.
var ErrEnded = errors.New("lease: the job has ended, and its transaction with it")

// A nest is a transaction that a handler has, by pgx or bun.
type nest struct {
	savepoint string
	around    *nest // that it was begun on with pgx, or nil
	closed    bool
	merged    bool // its savepoint has gone with one around it that was released
}

// errNotUndone says that a Rollback could not be sent. Nothing of the handler's may be committed then.
var errNotUndone = errors.New("lease: a transaction of the handler's could not be rolled back")

var errMerged = fmt.Errorf("%w: the one around it has been committed", errNotUndone)

// open returns another transaction for the handler, and the SQL that opens it.
func (l *Loan) open() (*nest, string, error) {
	if l.ended {
		return nil, "", ErrEnded
	}
	n := &nest{savepoint: outerSavepoint}
	sql := "SAVEPOINT " + outerSavepoint + handlerSettings
	switch top := len(l.stack) - 1; {
	case top < 0 && len(l.lane.hold.Rest) > 0 && !l.lane.batch:
		l.lane.batch, sql = true, "SAVEPOINT "+batchSavepoint+"; "+sql
	case top < 0:
	case l.undone && l.stack[top].nest != nil: // the savepoint is there, and nothing behind it
		n.savepoint, sql = l.stack[top].nest.savepoint, handlerSettings[len("; "):]
		l.stack = l.stack[:top]
	default:
		n.savepoint += "_" + strconv.Itoa(top+1)
		sql = "SAVEPOINT " + n.savepoint
	}
	l.stack, l.undone = append(l.stack, savepoint{nest: n}), false
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
	l.shut(n)
	release := false
	switch top := len(l.stack) - 1; {
	case n.merged && undo:
		l.spilt = errMerged
		l.mu.Unlock()
		return errMerged
	case undo:
		l.cut(1 + slices.IndexFunc(l.stack, func(s savepoint) bool { return s.nest == n }))
		l.undone = l.nested == 0
	case !gone && !n.merged && top > 0 && l.stack[top].nest == n: // or savepoints would pile up
		l.stack, release = l.stack[:top], true
	}
	l.mu.Unlock()
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
// back, and who uses its transactions relies on that. If it is not done, nothing of the handler's is committed.
func (l *Loan) undo(ctx context.Context, n *nest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.lane.bounds.Silence)
	defer cancel()
	_, err := l.lane.conn.Conn().Exec(ctx, "ROLLBACK TO SAVEPOINT "+n.savepoint)
	if err != nil {
		l.spill(nil, err)
	}
	return err
}

// spill notes that something which the handler has rolled back is not undone. If it was in a transaction that has ended
// since, it is.
func (l *Loan) spill(within *nest, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if within == nil || !within.closed {
		l.spilt = fmt.Errorf("%w: %w", errNotUndone, why)
	}
}

// cut keeps the first left savepoints, and ends the transactions of the others.
func (l *Loan) cut(left int) {
	cut := l.stack[left:]
	l.stack = l.stack[:left]
	for _, s := range cut {
		if s.nest == nil {
			continue
		}
		if l.bunTx != nil && l.bunTx.nest == s.nest {
			l.gone = append(l.gone, l.bunTx.Tx.Tx)
		}
		l.shut(s.nest)
	}
}

// shut makes a transaction unusable. Who asks for one is given another.
func (l *Loan) shut(n *nest) {
	if n.closed {
		return
	}
	n.closed = true
	l.nested--
	if l.pgxTx != nil && l.pgxTx.nest == n {
		l.pgxTx = nil
	}
	if l.bunTx != nil && l.bunTx.nest == n {
		l.bunTx = nil
	}
}

// A savepoint is that of a transaction of the handler's, or one that the handler made by hand, or bun for what is begun
// on its transactions.
type savepoint struct {
	nest *nest           // nil: it was made by hand
	name string          // if it was; "": it was released, or one around it was
	ctx  context.Context //nolint:containedctx // bun's: it releases its savepoint with it; nil after a rollback to it
}

// passes looks at a statement of the handler's that has succeeded: a savepoint made by hand, as bun does, has the
// transactions and savepoints that were begun behind it. If it is gone back to, they have ended; if it is released,
// they cannot be undone any more.
func (l *Loan) passes(ctx context.Context, sql string) {
	word, rest := firstWord(sql)
	verb := strings.ToUpper(word)
	switch verb {
	case "SAVEPOINT", "RELEASE", "ROLLBACK":
	default:
		return
	}
	name := savepointName(rest)
	l.mu.Lock()
	defer l.mu.Unlock()
	if verb == "SAVEPOINT" {
		l.stack = append(l.stack, savepoint{name: name, ctx: ctx})
		return
	}
	i := len(l.stack) - 1
	for i >= 0 && (name == "" || l.stack[i].name != name) {
		i--
	}
	if i < 0 {
		return
	}
	if verb == "ROLLBACK" {
		l.cut(i + 1)
		l.stack[i].ctx = nil
		return
	}
	l.merge(i)
}

// merge takes away the i-th savepoint, which was made by hand, and all that are behind it. What has not ended there, or
// may be undone yet for all that is known (see spilled), is that of the one around it.
func (l *Loan) merge(i int) {
	behind := slices.Clone(l.stack[i+1:])
	l.stack = l.stack[:i]
	for _, s := range behind {
		switch {
		case s.nest != nil:
			s.nest.merged = true
		case s.ctx == nil || s.ctx.Done() == nil:
			continue
		}
		s.name = ""
		l.stack = append(l.stack, s)
	}
}

// savepointName returns the name in what follows SAVEPOINT, RELEASE or ROLLBACK, as PostgreSQL folds it.
func savepointName(sql string) string {
	for {
		word, rest := firstWord(sql)
		switch strings.ToUpper(word) {
		case "WORK", "TRANSACTION", "TO", "SAVEPOINT":
			sql = rest
		case "":
			_, quoted, _ := strings.Cut(rest, `"`)
			name, _, _ := strings.Cut(quoted, `"`)
			return name
		default:
			return strings.ToLower(word)
		}
	}
}
