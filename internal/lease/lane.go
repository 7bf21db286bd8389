package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A Lane is one worker connection. It holds one group at a time, for as long as its transaction is open.
//
// Its methods are for one goroutine, except those of its link, which are for any. Whoever dialed it closes it. A nil
// Lane stands for none: Aside calls f, Spoiled is false, Undo does nothing. A Borrower that has borrowed none returns
// nil.
type Lane struct {
	recorder
	db *bun.DB

	last   pipeline // used again by the next one
	claims claims

	wary *atomic.Bool // the Dialer's
	of   *Lanes       // to which it goes back when it was lent; nil: it claims for itself

	inTx  bool  // a transaction is open as far as the lane knows
	hold  *Hold // what it holds, if anything
	loan  *Loan // the transaction as the handler has it; not nil while there is a hold
	used  bool  // a handler has taken the transaction since the claim
	batch bool  // the savepoint of a batch was made: a handler of several jobs has taken the transaction
}

// A Call is one settling statement with its parameters in text format. It must change, or return, exactly one row.
type Call struct {
	Statement string
	Args      [][]byte
	// Behind says that it settles jobs behind the head of a batch, which are not locked, so that it may be refused for
	// what somebody has done to them meanwhile. It runs before the others, in the savepoint of the batch: if it is
	// refused the jobs are given back, and no attempt of the head's is lost.
	Behind bool
	// Job is the id of the job whose row it deletes or changes, if that is one and it does so in any case; or 0.
	Job int64
	// Completes says that it completes one job and does nothing else. Its parameters begin with the job's queue, group
	// id and id.
	Completes bool
	// Counts says that it counts an attempt. Record looks at that, Step does not.
	Counts bool
	// Relaxes says that with it the commit of its transaction does not wait for the disk. It is the first call.
	Relaxes bool
}

// ErrNotHeld is returned when a statement that settles a job changed no row: the job was not held any more.
var ErrNotHeld = errors.New("lease: the job is not held any more")

// errNoRow says that a call of Step has found no row. The other calls are committed. It is an ErrNotHeld.
var errNoRow = fmt.Errorf("%w: a call has found no row", ErrNotHeld)

// Close ends the connection, and with it whatever it holds.
func (l *Lane) Close() error {
	l.forget()
	if l.lost.Load() { // cut off already, and somebody may still be waiting for an answer on it
		l.kill()
		return nil
	}
	return l.conn.Close()
}

// Lane returns the lane itself: that of a Borrower may be another one each time.
func (l *Lane) Lane() *Lane { return l }

// Forfeit is for what Step has left held: a Lane has nothing then.
func (l *Lane) Forfeit(context.Context) {}

func (l *Lane) forget() {
	if l.hold != nil {
		l.loan.end()
	}
	l.hold, l.inTx, l.used, l.batch, l.marked = nil, false, false, false, nil
}

// Missed returns why the last claim holds nothing, if it does.
func (l *Lane) Missed() Miss { return l.claims.missed }

// Used reports whether a handler has taken the held transaction, and so may have changed the rows of its own jobs.
func (l *Lane) Used() bool { return l.used }

// FreeSlot does nothing: a slot is free when the transaction that has it ends.
func (l *Lane) FreeSlot() {}

func (l *Lane) pipeline(ctx context.Context) *pipeline {
	return l.last.reuse(l.pg().StartPipeline(ctx), l.stmts, l.pooled)
}

// begin begins a transaction to take jobs in.
func (l *Lane) begin(p *pipeline) {
	p.send(stmtBegin, nil, nil)
	if l.pooled {
		p.send(stmtLocal, nil, nil)
	}
}

// Mark marks the attempts of held heads as begun, durably: if they die, whoever claims them next knows, whatever
// becomes of the evidence that their locks leave.
//
// It takes a connection of the Control pool for a moment, and waits a second for one at most, and for the server as
// long as the lane does. The lane takes the marks back when the heads are settled or given back. A mark that comes
// later than that is not made.
//
// It returns ErrLost if the claim has ended by the time the marks are committed: nothing of it may begin then. Somebody
// else may have claimed the heads before the marks were there to be seen. It returns ErrPaused if marking has taken
// long, and a pause has come meanwhile, whether the marks were made or not; but a job of a group of which several may
// run has started with its mark, and is not given back for a pause.
func (l *Lane) Mark(ctx context.Context, heads []*Held) error {
	begin := time.Now()
	err := l.mark(ctx, heads)
	if time.Since(begin) < tuning.Look || errors.Is(err, ErrLost) || l.HungUp() || l.hold.GroupSlot {
		return err
	}
	switch paused, failed := pausedSince(l.pipeline(ctx), l.hold); {
	case failed != nil:
		_ = l.Close()
		return fmt.Errorf("%w: look for a pause: %w", ErrLost, failed)
	case paused:
		return ErrPaused
	}
	return err
}

// Spoiled reports whether the next job, of any queue, would meet what a handler has done to the session for longer than
// its transaction (Job.Tx of package fifo says what is noticed). Such a lane is closed when its job is settled. So is
// one with another encoding, in which payloads would be read, one whose transaction was not the lane's to end any more,
// and one that a late cancel request may still reach.
func (l *Lane) Spoiled() bool { return l != nil && l.stream.spoiled.Load() }

// Loan returns the held transaction as the handler that runs now, or the next one, is to have it.
func (l *Lane) Loan() *Loan { return l.loan }

// Lend runs a handler, which may take the held transaction meanwhile; heartbeats go on beside it. It returns an error
// if what the handler did cannot be committed: a statement failed that the handler did not roll back, the handler ended
// the transaction, or it left rows open. It asks the server nothing, unless the handler used large objects or took away
// the lane's prepared statements.
//
// The jobs of a batch may be lent one after the other, with KeepWrites between them.
func (l *Lane) Lend(_ context.Context, handler func()) error {
	l.wire.open(true)
	handler()
	return l.takeBack()
}

func (l *Lane) takeBack() error {
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
		if err := l.loan.undoError(); err != nil {
			return err
		}
		err := l.prepareAgain()
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
			return l.unsettled(fmt.Errorf("%w: %w", ErrNotHeld, err), false)
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
	if err := l.prepareAgain(); err != nil {
		_ = l.Close()
		return errors.Join(ErrLost, err)
	}
	return nil
}

// lookSQL returns a row if stmtRestore is prepared. It stands for all statements of the lane.
const lookSQL = "; SELECT FROM pg_catalog.pg_prepared_statements " +
	"WHERE name OPERATOR(pg_catalog.=) '" + stmtRestore + "'"

// prepareAgain makes the lane prepare its statements again at their next use, if a handler may have taken them away:
// its job is settled with them. The transaction must not have failed. stmtRestore is used first: it is parsed in the
// lane's encoding, and with backslashes that escape nothing, whatever the handler has set.
func (l *Lane) prepareAgain() error {
	if l.pooled || !l.loan.used() || !l.stream.deallocated.Load() && (!l.wary.Load() || l.loan.prepared) {
		return nil
	}
	const parsing = "SET LOCAL client_encoding TO 'UTF8'; SET LOCAL standard_conforming_strings TO on"
	results, err := l.pg().Exec(ownContext, parsing+lookSQL).ReadAll()
	if err != nil {
		return fmt.Errorf("lease: prepare again: %w", err)
	}
	if len(results[2].Rows) == 0 { // they were taken away, and so were those of pgx, which the next handler would use
		l.stream.spoiled.Store(true)
	}
	l.stmts.forget()
	l.stmts.add(stmtRestore, l.stmts[stmtRestore].SQL)
	l.stream.deallocated.Store(false)
	l.loan.prepared = true
	return nil
}

// prepareRestore prepares what puts back the settings that a handler has changed, before a handler runs: later, only
// prepareAgain has it parsed under the right settings. The other statements are parsed after it has run, when the
// handler's encoding and search path are put back.
func (l *Lane) prepareRestore(ctx context.Context) error {
	p := l.pipeline(ctx)
	p.prepare(stmtRestore)
	if err := p.exchange(); err != nil {
		return fmt.Errorf("lease: prepare: %w", err)
	}
	return nil
}
