package lease

import (
	"context"
	"database/sql"
	"fmt"
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

	mu     sync.Mutex // a handler may use several goroutines
	ended  bool
	stack  []savepoint // that are there, the first one first; none: the handler did not take the transaction
	nested int         // how many transactions are open
	undone bool        // nothing has been written since the last savepoint, and none is open
	pgxTx  *nestedTx
	bunTx  *nestedBun
	gone   []*sql.Tx // ended with the one around them, and open as far as database/sql knows
	large  []pgx.Tx  // whose large objects the handler has asked for
	spilt  error     // what was rolled back is not undone

	prepared bool // the lane's statements were prepared again behind it

	busy int // statements of bunTx in the driver
	rows int // of bunTx that are open

	begin   *ticket    // by which bunTx is begun now
	fencing sync.Mutex // held while a token is drawn
	fences  map[groups.Key]int64
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

// spilled returns why a rollback of the handler's did not take place, if one did not, and keeps that. What was begun on
// bun's transactions is not ended if its context ended before: whether it was to be rolled back is not known.
func (l *Loan) spilled() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.stack {
		if s.ctx != nil && s.ctx.Err() != nil && l.spilt == nil {
			l.spilt = fmt.Errorf("%w: its context has ended: %w", errNotUndone, s.ctx.Err())
		}
	}
	return l.spilt
}

// end makes the handler's transaction unusable, and closes rows that database/sql keeps open on it. A statement of that
// which is under way is cut off, and reported, and so are rows that cannot be closed.
func (l *Loan) end() (busy bool) {
	l.mu.Lock()
	l.ended = true
	busy = l.busy > 0
	txs, rows := l.gone, l.rows
	if l.bunTx != nil {
		txs = append(txs, l.bunTx.Tx.Tx)
	}
	l.bunTx, l.pgxTx, l.gone = nil, nil, nil
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
	late := time.NewTimer(l.lane.bounds.Silence)
	defer late.Stop()
	select {
	case <-closed:
		return true
	case <-late.C:
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

// borrow sees to it that the loan has a lane.
func (l *Loan) borrow(ctx context.Context) error {
	if l.from == nil {
		return nil
	}
	return l.from.borrow(ctx, l)
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
