package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/groups"
)

// settling returns a lane that has taken a hold, to settle it. No row's lock keeps those lanes from others for long
// that settle: after a second a handlers' lane waits.
func (k *Keeper) settling(ctx context.Context, hold *Hold) (lane *Lane, of *Lanes, err error) {
	lane, err = taken(ctx, k.Ends, hold, new(Loan))
	if locked := (*pgconn.PgError)(nil); errors.As(err, &locked) && locked.Code == lockNotAvailable {
		lane, err = taken(ctx, k.Lanes, hold, new(Loan))
		return lane, k.Lanes, err
	}
	return lane, k.Ends, err
}

// taken returns a lane that has taken a hold. One whose connection broke before that has done nothing, so another one
// is tried.
func taken(ctx context.Context, from *Lanes, hold *Hold, loan *Loan) (lane *Lane, err error) {
	for range 2 {
		if lane, err = from.get(ctx); err != nil {
			return nil, err
		}
		if err = lane.take(ctx, hold, loan, from.bounded); err == nil {
			return lane, nil
		}
		from.put(lane)
		if Refused(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// borrow gets a lane for a loan, if that has none.
func (b *Borrower) borrow(ctx context.Context, loan *Loan) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if loan.Ended() || loan != b.loan {
		return ErrEnded
	}
	if b.lane != nil {
		return nil
	}
	lends := b.waits != nil // to a handler
	if lends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(b.waits, cancel)()
	}
	lane, err := taken(ctx, b.keeper.Lanes, b.hold, loan)
	if errors.Is(err, ErrNotHeld) {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err != nil {
		return err
	}
	if lends {
		lane.lend()
	}
	b.lane, b.of = lane, b.keeper.Lanes
	b.at.Store(lane)
	return nil
}

func (b *Borrower) have(of *Lanes, lane *Lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lane, b.of = lane, of
	b.at.Store(lane)
}

// giveBack gives the lane back. A transaction that is open on it is cut off.
func (b *Borrower) giveBack() {
	lane := b.lane
	if lane == nil {
		return
	}
	of := b.of
	b.have(nil, nil)
	if lane.inTx {
		lane.Abandon()
	}
	of.put(lane)
}

// fence returns the token of the claim for one of the groups that it holds.
func (b *Borrower) fence(key groups.Key) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hold != nil && !b.session.ended() {
		for h := range b.hold.Heads() {
			if h.Key == key && h.token != 0 {
				return h.token, nil
			}
		}
	}
	return 0, fmt.Errorf("lease: fence: %w", ErrLost)
}

// Lend runs a handler. It returns ErrLost if the session has ended by the time the handler returns.
func (b *Borrower) Lend(handler func()) error {
	b.mu.Lock()
	b.waits, b.stop = context.WithCancel(context.Background())
	if b.lane != nil { // of the job before in the batch
		b.lane.lend()
	}
	b.mu.Unlock()
	b.started.Store(int64(time.Since(epoch)) + 1)
	if !b.session.ended() {
		handler()
	}
	b.started.Store(0)
	b.stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waits = nil
	var err error
	if b.lane == nil {
		b.loan.end()
	} else {
		err = b.lane.takeBack()
		b.lost = errors.Is(err, ErrLost)
	}
	if b.session.ended() || b.closed.Load() {
		return ErrLost
	}
	return err
}

// Keep is Lane.Keep.
func (b *Borrower) Keep(ctx context.Context) error {
	if b.lane == nil {
		b.mu.Lock()
		b.loan = &Loan{from: b}
		b.mu.Unlock()
		return nil
	}
	err := b.lane.Keep(ctx)
	b.mu.Lock()
	b.loan = b.lane.loan
	b.mu.Unlock()
	return err
}

// Undo is Lane.Undo.
func (b *Borrower) Undo(ctx context.Context) error {
	if b.lane == nil {
		return nil
	}
	return b.lane.Undo(ctx)
}
