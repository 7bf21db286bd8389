package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A handler gets the lane's transaction as one nested in it: a savepoint that is made when it first asks. Rollback goes
// back to that; Commit releases it if nothing else needs it. When the attempt fails, the lane goes back to it as well.
// When the attempt succeeds, the lane releases it, which fails if the transaction is no longer the one that claimed.
//
// A transaction that the handler asks for beside another one, in another one, or after what it has committed, has a
// savepoint of its own: the other one is to stay when this one is rolled back.
//
// If several jobs are held, all of that is in a savepoint of the lane's. A deferred constraint would refuse their
// COMMIT, which frees their groups before anybody can say that no worker has died; so constraints are checked before,
// and then the jobs are given back. A cursor WITH HOLD, whose query runs at COMMIT, could do the same: it is closed,
// because nobody can read it any more.
//
// PostgreSQL goes back to the last savepoint of a name. So the names are of this process, and no handler uses one by
// chance.
var (
	process        = strings.ToLower(rand.Text())
	outerSavepoint = "pgfifo_" + process
	batchSavepoint = "pgfifo_batch_" + process

	releaseOuter = "RELEASE SAVEPOINT " + outerSavepoint
	undoOuter    = "ROLLBACK TO SAVEPOINT " + outerSavepoint
	undoBatch    = "ROLLBACK TO SAVEPOINT " + batchSavepoint
)

const constraintsSQL = "SET CONSTRAINTS ALL IMMEDIATE"

// Names of prepared statements.
const (
	stmtRelease      = "pgfifo_release"
	stmtBatch        = "pgfifo_batch"
	stmtReleaseBatch = "pgfifo_release_batch"
	stmtConstraints  = "pgfifo_constraints"
	stmtCursors      = "pgfifo_cursors"
)

var savepointSQL = map[string]string{
	stmtRelease:      releaseOuter,
	stmtBatch:        "SAVEPOINT " + batchSavepoint,
	stmtReleaseBatch: "RELEASE SAVEPOINT " + batchSavepoint,
	stmtConstraints:  constraintsSQL,
	stmtCursors:      "CLOSE ALL",
}

// ErrGivenBack is returned by Step when the jobs of a batch could not be settled, because what their handlers wrote
// cannot be committed. All of that is undone, and the jobs are as they were.
var ErrGivenBack = errors.New("lease: the batch cannot be committed, and is given back")

// savepoints are those in which a handler has its transactions. The zero value has none.
type savepoints struct {
	stack   []savepoint // that are there, the first one first; none: the handler did not take the transaction
	nested  int         // how many transactions are open
	undone  bool        // nothing has been written since the last savepoint, and none is open
	undoErr error       // why what was rolled back is not undone

	written bool // rows were written that are still there, as far as is seen
	forgone bool // all of them were rolled back last
	failed  bool // a statement has failed: a rollback is meant then
}

// A savepoint is that of a transaction of the handler's, or one that the handler made by hand, or bun for what is begun
// on its transactions.
type savepoint struct {
	nest *nest           // nil: it was made by hand
	name string          // if it was; "": it was released, or one around it was
	ctx  context.Context //nolint:containedctx // bun's: it releases its savepoint with it; nil after a rollback to it
}

// open returns another transaction, and the SQL that opens it.
func (s *savepoints) open() (*nest, string) {
	n := &nest{savepoint: outerSavepoint}
	sql := "SAVEPOINT " + outerSavepoint + handlerSettings
	switch top := len(s.stack) - 1; {
	case top < 0:
	case s.undone && s.stack[top].nest != nil: // the savepoint is there, and nothing behind it
		n.savepoint, sql = s.stack[top].nest.savepoint, handlerSettings[len("; "):]
		s.stack = s.stack[:top]
	default:
		n.savepoint += "_" + strconv.Itoa(top+1)
		sql = "SAVEPOINT " + n.savepoint
	}
	s.stack, s.undone, s.forgone = append(s.stack, savepoint{nest: n}), false, false
	s.nested++
	return n, sql
}

// close ends a transaction, and, if it is to be undone, those that were begun in it. failed says that a statement has
// failed. It reports whether the savepoint is to be released.
func (s *savepoints) close(n *nest, undo, failed bool) (release bool, err error) {
	gone := n.closed
	s.failed = s.failed || failed
	s.shut(n)
	switch top := len(s.stack) - 1; {
	case n.merged && undo:
		s.undoErr = errMerged
		return false, errMerged
	case undo:
		s.cut(1 + slices.IndexFunc(s.stack, func(one savepoint) bool { return one.nest == n }))
		s.undone = s.nested == 0
		s.forgone, s.written = s.undone && s.written && !s.failed, s.written && !s.undone
	case !gone && !n.merged && top > 0 && s.stack[top].nest == n: // or savepoints would pile up
		s.stack, release = s.stack[:top], true
	}
	if !undo && s.nested == 0 { // what is committed stays
		s.written = false
	}
	return release, nil
}

// cut keeps the first left savepoints, and ends the transactions of the others.
func (s *savepoints) cut(left int) {
	cut := s.stack[left:]
	s.stack = s.stack[:left]
	for _, one := range cut {
		if one.nest == nil {
			continue
		}
		one.nest.cut = !one.nest.closed
		s.shut(one.nest)
	}
}

// shut makes a transaction unusable. Whoever asks for one is given another.
func (s *savepoints) shut(n *nest) {
	if !n.closed {
		n.closed = true
		s.nested--
	}
}

// pass follows a statement of the handler's: a savepoint made by hand, as bun does, has in it the transactions and
// savepoints that were begun after it. A rollback to it ends them; after its release they cannot be undone any more.
func (s *savepoints) pass(ctx context.Context, verb, name string) {
	if verb == "SAVEPOINT" {
		s.stack = append(s.stack, savepoint{name: name, ctx: ctx})
		return
	}
	i := len(s.stack) - 1
	for i >= 0 && (name == "" || s.stack[i].name != name) {
		i--
	}
	if i < 0 {
		return
	}
	if verb == "ROLLBACK" {
		s.cut(i + 1)
		s.stack[i].ctx = nil
		return
	}
	s.merge(i)
}

// merge takes away the i-th savepoint and those behind it, because the i-th was made by hand and is released.
// Transactions that are still open there, or may still be undone as far as is known (see undoError), stay: only the
// savepoint around them can undo their writes.
func (s *savepoints) merge(i int) {
	behind := slices.Clone(s.stack[i+1:])
	s.stack = s.stack[:i]
	for _, one := range behind {
		switch {
		case one.nest != nil:
			one.nest.merged = true
		case one.ctx == nil || one.ctx.Done() == nil:
			continue
		}
		one.name = ""
		s.stack = append(s.stack, one)
	}
}

// undoError returns why a rollback of the handler's did not take place, if one did not, and keeps that. What was begun
// on bun's transactions is not ended if its context ended before: whether it was to be rolled back is not known.
func (s *savepoints) undoError() error {
	for _, one := range s.stack {
		if one.ctx != nil && one.ctx.Err() != nil && s.undoErr == nil {
			s.undoErr = fmt.Errorf("%w: its context has ended: %w", errNotUndone, one.ctx.Err())
		}
	}
	return s.undoErr
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
