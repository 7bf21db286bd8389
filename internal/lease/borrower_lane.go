package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// How a Borrower gets a lane, what it does there, and how it gives it back.

// laneToSettle returns a lane that has taken what the borrower holds, or that head of it, to settle it. While somebody
// has a row locked, or there is no connection, it tries again: the session still has the group.
//
// The lane that only settles is for what is quick, and so are those of handlers, while some are free. A group that was
// not quick is settled by a handlers' lane, as long as that takes.
func (b *Borrower) laneToSettle(ctx context.Context, hold *Hold, wait patience) (*Lane, error) {
	for n := 1; ; n++ {
		other := b.keeper.others.lanes
		if b.keeper.slow.is(hold.Key) {
			other, wait = b.keeper.Lanes, waitToTake
		}
		lane, err := b.laneWith(ctx, ctx, other, hold, new(Loan), wait)
		wait = waitBarely // somebody has a row locked: others are not to wait as well
		if err == nil || Refused(err) && !tooLong(err) || b.Closed() {
			return lane, err
		}
		if pause.For(ctx, rest.Nth(n, tuning.Rest, tuning.Wait)) != nil {
			return nil, err
		}
	}
}

// laneWith returns a lane that has taken a hold: a handlers' lane, or one of other. One whose connection broke before
// that has done nothing, so another one is tried.
func (b *Borrower) laneWith(
	ctx, waits context.Context, other *Lanes, hold *Hold, loan *Loan, wait patience,
) (lane *Lane, err error) {
	for range 2 {
		if lane, err = b.keeper.Lanes.either(ctx, other, waits); err != nil {
			return nil, err
		}
		b.taking.Store(lane) // others cut it off if its connection turns out to lead nowhere
		err = lane.take(ctx, hold, loan, wait)
		b.taking.Store(nil)
		if err == nil {
			return lane, nil
		}
		lane.of.put(lane)
		if Refused(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// settleOnLane settles heads of a hold with calls, and lets their groups go, in a transaction of a lane that takes the
// hold for it. After an error the groups are still held, unless it is errNoRow. If the only call is for a job behind
// the head, its wait is bounded: else ctx would end first, and Forfeit would charge the head.
func (b *Borrower) settleOnLane(ctx context.Context, hold *Hold, calls []Call, wait patience) error {
	job := jobOf(calls)
	behind := len(hold.Rest) == 0 && job != 0 && job != hold.ID
	for {
		lane, err := b.laneToSettle(ctx, hold, wait)
		if err != nil {
			return err
		}
		slow := b.keeper.slow.is(hold.Key)
		b.setLane(lane)
		if hold.changed() && slices.ContainsFunc(calls, func(c Call) bool { return c.Behind }) {
			lane.rollback(ctx)
			b.returnLane()
			return fmt.Errorf("%w: a job behind the head was changed", ErrGivenBack)
		}
		if behind {
			deadline, _ := ctx.Deadline()
			return b.settleBorrowed(ctx, hold, append([]Call{boundBy(time.Until(deadline) / 2)}, calls...))
		}
		if err = b.settleBorrowed(ctx, hold, calls); !tooLong(err) || slow {
			return err
		}
		b.keeper.slow.add(hold.Key)
	}
}

// settleBorrowed makes the calls in the transaction of the lane that is borrowed, lets the groups go, and gives the
// lane back.
func (b *Borrower) settleBorrowed(ctx context.Context, hold *Hold, calls []Call) error {
	lane, heads := b.lane.Load(), keptHeads(hold)
	lane.marked = append(lane.marked, lostHeads(hold)...)
	begin := time.Now()
	settled := make([]int64, len(heads))
	if len(heads) == 1 { // a call that settles several jobs checks its own row count
		settled[0] = jobOf(calls) // it may be one behind the head
	}
	end := endCall(heads, settled)
	_, _, err := lane.Step(ctx, append(calls[:len(calls):len(calls)], end), nil)
	b.returnLane()
	if err == nil {
		b.keeper.slow.tookAlone(hold.Key, len(calls), time.Since(begin))
	}
	return err
}

// borrow gets a lane for a loan, if that has none.
func (b *Borrower) borrow(ctx context.Context, loan *Loan) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if loan.Ended() || loan != b.loan || b.lends == nil {
		return ErrEnded
	}
	if b.lane.Load() != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.lends, cancel)()
	lane, err := b.laneWith(ctx, b.waits, b.keeper.Lanes, b.hold, loan, waitForever)
	if errors.Is(err, ErrNotHeld) || err != nil && b.session.ended() {
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err != nil {
		return err
	}
	lane.wire.open(true)
	b.lane.Store(lane)
	if b.session.ended() { // cut may have come before
		lane.Abandon()
		return ErrLost
	}
	return nil
}

// cut ends the transaction on the lane that is borrowed, if any: it cannot commit, and keeps the group from others.
func (b *Borrower) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if lane := b.lane.Load(); lane != nil {
		lane.Abandon()
	}
}

func (b *Borrower) setLane(lane *Lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lane.Store(lane)
}

// returnLane gives the lane back. A transaction that is open on it is cut off.
func (b *Borrower) returnLane() {
	lane := b.lane.Load()
	if lane == nil {
		return
	}
	b.setLane(nil)
	if lane.inTx {
		lane.Abandon()
	}
	lane.of.put(lane)
}

// lending returns the transaction of hold as its next handler is to have it: with the tokens of the claim, for Fence.
func (b *Borrower) lending(hold *Hold) *Loan {
	l := &Loan{from: b}
	for _, h := range keptHeads(hold) {
		l.fences.add(h.Key, h.token)
	}
	return l
}

// Lend runs a handler, unless the session has ended. It returns ErrLost if the session has ended by the time the
// handler returns: the handler's transaction ends with it. When ctx has ended, the handler waits for no lane.
func (b *Borrower) Lend(ctx context.Context, handler func()) error {
	lends, stop := context.WithCancel(b.session.lives)
	b.mu.Lock()
	b.lends, b.waits = lends, ctx
	if lane := b.lane.Load(); lane != nil { // of the job before in the batch
		lane.wire.open(true)
	}
	b.mu.Unlock()
	uncut := context.AfterFunc(b.session.lives, b.cut)
	if !b.session.ended() {
		handler()
	}
	uncut()
	stop()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lends = nil
	var err error
	if lane := b.lane.Load(); lane == nil {
		b.loan.end()
	} else {
		err = lane.takeBack()
		b.lost = errors.Is(err, ErrLost)
	}
	if b.session.ended() || b.closed.Load() {
		return ErrLost
	}
	return err
}

// KeepWrites is Lane.KeepWrites.
func (b *Borrower) KeepWrites(ctx context.Context) error {
	lane := b.lane.Load()
	if lane == nil {
		b.mu.Lock()
		b.loan = b.lending(b.hold)
		b.mu.Unlock()
		return nil
	}
	err := lane.KeepWrites(ctx)
	b.mu.Lock()
	b.loan = lane.loan
	b.mu.Unlock()
	return err
}
