package lease

import (
	"context"
	"database/sql"
	"errors"
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

// enter counts a statement of database/sql, unless its transaction has ended.
func (l *Loan) enter(n *nest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return ErrEnded
	case n.closed:
		return sql.ErrTxDone
	}
	l.busy++
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
	late := time.NewTimer(l.lane.silent)
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

// Loan returns the held transaction as the handler that runs now, or the next one, is to have it.
func (l *Lane) Loan() *Loan { return l.loan }

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

// Lend runs a handler, which may take the held transaction meanwhile; heartbeats go on beside it. It returns an error
// if what the handler did cannot be committed: a statement failed that the handler did not roll back, the handler ended
// the transaction, or it left rows open. It asks the server nothing, unless the handler used large objects or took away
// the lane's prepared statements.
//
// Of a batch, jobs may be lent one after the other, with KeepWrites between them.
func (l *Lane) Lend(_ context.Context, handler func()) error {
	l.lend()
	handler()
	return l.takeBack()
}

// lend lets a handler use the connection, until takeBack.
func (l *Lane) lend() {
	l.wire.open(true)
	l.start()
}

func (l *Lane) takeBack() error {
	defer l.stop()
	defer l.wire.reclaim()
	lost := l.lost.Load()
	busy := l.loan.end()
	l.used = l.used || l.loan.used()
	if open := l.wire.reclaim(); (open || busy) && !lost {
		_ = l.cut(nil) // not Close: a goroutine of the handler's may be in the middle of a statement
		return fmt.Errorf("%w: the handler returned with rows or a batch of its transaction still open", ErrNotHeld)
	}
	if l.Closed() {
		return ErrLost
	}
	if l.pg().ParameterStatus("client_encoding") != "UTF8" { // for the transaction perhaps, perhaps for longer
		l.stream.spoiled.Store(true)
	}
	l.loan.endLargeObjects()
	if l.Closed() {
		return ErrLost
	}
	switch l.pg().TxStatus() {
	case 'T':
		if err := l.loan.spilled(); err != nil {
			return err
		}
		err := l.prepareAgain(ownContext)
		if err != nil && l.Closed() {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		return err
	case 'E':
		return l.wire.notRolledBack()
	default:
		l.stream.spoiled.Store(true) // what it has set is there to stay
		return errEndedByHand
	}
}

// Aside runs f, which does not use the connection. If a group is held, heartbeats go on beside it.
func (l *Lane) Aside(f func()) {
	if l == nil || l.hold == nil {
		f()
		return
	}
	l.wire.open(false)
	defer l.wire.reclaim()
	l.start()
	defer l.stop()
	f()
}

// KeepWrites makes what the handler wrote part of the transaction, to stay even if the next job of the batch fails. It
// returns ErrNotHeld if the transaction is not the one that claimed any more, ErrUnsettled as Step does, and ErrLost if
// the connection is gone; the lane holds nothing then.
func (l *Lane) KeepWrites(ctx context.Context) error {
	if l.loan.used() {
		if err := l.release(ctx); err != nil {
			l.forget()
			if l.Closed() {
				return errors.Join(ErrLost, err)
			}
			l.rollback(ctx)
			return l.unsettled(fmt.Errorf("%w: %w", ErrNotHeld, err))
		}
	}
	l.loan = &Loan{lane: l}
	return nil
}

// release ends the handler's savepoint, and puts back for the next job what the handler has set.
func (l *Lane) release(ctx context.Context) error {
	p := l.pipeline(ctx)
	p.send(stmtRestore, [][]byte{appendInt(l.hold.Seen.XID)}, nil)
	p.send(stmtRelease, nil, nil)
	return p.exchange()
}

// Undo rolls back what the handler wrote through the transaction, and makes the transaction usable to record why.
// It returns ErrNotHeld if the transaction is not the one that claimed any more; the lane holds nothing then.
func (l *Lane) Undo(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if l.Closed() {
		l.forget()
		return ErrLost
	}
	if !l.loan.used() && l.pg().TxStatus() == 'T' {
		return nil
	}
	if _, err := l.pg().Exec(ctx, undoOuter).ReadAll(); err != nil {
		l.forget()
		l.rollback(ctx)
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	if err := l.prepareAgain(ownContext); err != nil {
		_ = l.Close()
		return errors.Join(ErrLost, err)
	}
	return nil
}
