package lease

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
)

// A Loan is a lane's transaction as one handler has it: nested in a savepoint, and for as long as the handler runs.
type Loan struct {
	lane      *Lane
	from      *Borrower // which gets it a lane when it needs one; nil: it has one
	groupSlot bool      // other jobs of the group may run beside its own

	mu    sync.Mutex // a handler may use several goroutines
	ended bool
	busy  int // statements of its transactions that are under way
	savepoints
	pgxTx *nestedTx // the last one
	bun   bunTxs
	large []pgx.Tx // whose large objects the handler has asked for

	prepared bool // the lane's statements were prepared again after it
	fences   fences
}

// used reports whether the handler asked for the transaction.
func (l *Loan) used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stack) > 0
}

// enter counts a statement, unless its transaction has ended. If the job ends before the statement does, the connection
// is cut off.
func (l *Loan) enter(n *nest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable(n); err != nil {
		return err
	}
	l.busy++
	return nil
}

// usable returns an error if a transaction of the handler's has ended, or one around it.
func (l *Loan) usable(n *nest) error {
	if l.ended {
		return ErrEnded
	}
	for ; n != nil; n = n.around {
		if n.closed {
			return sql.ErrTxDone
		}
	}
	return nil
}

func (l *Loan) leave() {
	l.mu.Lock()
	l.busy--
	l.mu.Unlock()
}

// Ended reports whether the handler has returned.
func (l *Loan) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// undoError is savepoints.undoError.
func (l *Loan) undoError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.savepoints.undoError()
}

// end makes the handler's transaction unusable, and closes rows that database/sql keeps open on it. If a statement of
// it is under way, or rows cannot be closed, the connection is cut off, and that is reported.
func (l *Loan) end() (busy bool) {
	l.mu.Lock()
	l.ended = true
	busy = l.busy > 0
	l.bun.replace(nil)
	txs, rows := l.bun.gone, l.bun.rows
	l.pgxTx, l.bun.gone = nil, nil
	l.mu.Unlock()
	if busy {
		_ = l.lane.cut(nil)
	}
	switch {
	case rows == 0 && !busy:
		commit(txs)
	case !l.closeRows(txs):
		busy = true
		_ = l.lane.cut(nil)
	}
	return busy
}

// commit ends transactions of database/sql without SQL, see laneTx.
func commit(txs []*sql.Tx) {
	for _, tx := range txs {
		_ = tx.Commit()
	}
}

// closeRows ends transactions of database/sql that have rows open, and reports whether it could. It cannot while the
// handler has their bytes (sql.RawBytes): until its next call, which may never come. If the connection is cut off it
// does not wait: a statement may be under way for as long as its argument (driver.Valuer) takes.
func (l *Loan) closeRows(txs []*sql.Tx) bool {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		commit(txs)
	}()
	if l.lane.lost.Load() {
		return true // nobody uses the connection any more
	}
	select {
	case <-closed:
		return true
	case <-time.After(l.lane.bounds.Silence):
		return false
	}
}

// endLargeObjects makes what the handler has of them unusable, which pgx does only by a statement: an empty one.
func (l *Loan) endLargeObjects() {
	l.mu.Lock()
	large := l.large
	l.large = nil
	l.mu.Unlock()
	for _, tx := range large {
		_ = tx.Commit(ownContext) // closes the connection if it fails
	}
}

// Fence returns the fencing token of the claim for one of the groups that it holds, as Job.Fence of package fifo has
// it. The first call takes the job's transaction, as PgxTx does, and a connection of the Dialer's Control pool for a
// moment.
func (l *Loan) Fence(ctx context.Context, key groups.Key) (int64, error) {
	l.fences.mu.Lock()
	defer l.fences.mu.Unlock()
	token, ok := l.fences.tokens[key]
	switch {
	case l.from != nil && l.Ended():
		return 0, ErrEnded
	case l.from != nil && (!ok || l.from.session.ended()):
		return 0, fmt.Errorf("lease: fence: %w", ErrLost)
	case ok:
		return token, nil
	case l.lane.control == nil:
		return 0, ErrNoControl
	}
	xid, err := l.claimXID(ctx, key)
	if err == nil {
		token, err = drawToken(ctx, l.lane, key, xid)
	}
	if err != nil {
		return 0, fenceError(err, l.lane.Closed())
	}
	l.fences.add(key, token)
	return token, nil
}

// claimXID returns the id of the transaction that claimed the group, which must be the one that is open.
func (l *Loan) claimXID(ctx context.Context, key groups.Key) (xid string, err error) {
	tx, err := l.beside(ctx)
	if err != nil {
		return "", err
	}
	sql := statement("fence_claim")
	if l.groupSlot {
		sql = strings.Replace(sql, "queue_groups", "group_slots", 1)
	}
	err = tx.QueryRow(ctx, l.lane.schema.Qualify(sql), key.Queue, key.GroupID).Scan(&xid)
	return xid, cmp.Or(err, tx.Rollback(ctx)) // nothing was written
}

// beside returns a transaction of its own within the job's, also if the handler has one.
func (l *Loan) beside(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	last, open := l.pgxTx, l.pgxTx.open()
	l.mu.Unlock()
	if open {
		return last.Begin(ctx)
	}
	return l.PgxTx(ctx)
}

// borrow sees to it that the loan has a lane.
func (l *Loan) borrow(ctx context.Context) error {
	if l.from == nil {
		return nil
	}
	return l.from.borrow(ctx, l)
}
