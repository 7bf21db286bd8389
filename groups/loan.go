package groups

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uptrace/bun"
)

// A Loan is a lane's transaction as one handler has it: nested in a savepoint, and for as long as the handler runs.
type Loan struct {
	lane *Lane

	mu     sync.Mutex // a handler may use several goroutines
	ended  bool
	opened bool // the handler took the transaction: the savepoints exist
	bunTx  *bun.Tx

	fencing sync.Mutex // held while a token is drawn
	fences  map[Key]int64
}

// taken reports whether the handler asked for the transaction.
func (l *Loan) taken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened
}

// end makes the handler's transaction unusable, and closes rows that database/sql keeps open on it.
func (l *Loan) end() {
	l.mu.Lock()
	l.ended = true
	tx := l.bunTx
	l.bunTx = nil
	l.mu.Unlock()
	if tx != nil {
		_ = tx.Tx.Commit() // no SQL, see laneTx
	}
}

// Loan returns the held transaction as the handler that runs now, or the next one, is to have it.
func (l *Lane) Loan() *Loan { return l.loan }

// Lend runs a handler, which may take the held transaction meanwhile; heartbeats go on beside it. It returns an error
// if what the handler did cannot be committed: a statement failed that the handler did not roll back, the handler ended
// the transaction, or it left rows open. It asks the server nothing.
//
// Of a batch, jobs may be lent one after the other, with Keep between them.
func (l *Lane) Lend(handler func()) error {
	l.wire.lend()
	l.since.Store(int64(time.Since(epoch)) + 1)
	defer l.since.Store(0)
	defer l.wire.reclaim()
	handler()
	l.loan.end() // closes what database/sql has open
	l.used = l.used || l.loan.taken()
	if open := l.wire.reclaim(); open {
		l.lost.Store(true)
		l.Kill() // not Close: a goroutine of the handler's may be in the middle of a statement
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

// Keep makes what the handler wrote part of the transaction, to stay even if the next job of the batch fails. It returns
// ErrNotHeld if the transaction is not the one that claimed any more, and ErrLost if the connection is gone; the lane holds
// nothing then.
func (l *Lane) Keep(ctx context.Context) error {
	if l.loan.taken() {
		if _, err := l.pg().Exec(ctx, releaseOuter).ReadAll(); err != nil {
			l.forget()
			if l.Closed() {
				return errors.Join(ErrLost, err)
			}
			l.rollback(ctx)
			return fmt.Errorf("%w: %w", ErrNotHeld, err)
		}
	}
	l.loan = &Loan{lane: l}
	return nil
}

// Undo rolls back what the handler wrote through the transaction, and makes the transaction usable to record why.
// It returns ErrNotHeld if the transaction is not the one that claimed any more; the lane holds nothing then.
func (l *Lane) Undo(ctx context.Context) error {
	if l.Closed() {
		l.forget()
		return ErrLost
	}
	if !l.loan.taken() && l.pg().TxStatus() == 'T' {
		return nil
	}
	if _, err := l.pg().Exec(ctx, undoOuter).ReadAll(); err != nil {
		l.forget()
		l.rollback(ctx)
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return nil
}
