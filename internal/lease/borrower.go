package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// A Borrower works one group at a time that a Keeper's session holds. It has no connection: it borrows a lane when the
// handler asks for the job's transaction, and to settle the job. That lane takes the group's row and the job's, and is
// then like a lane that has claimed them.
//
// Its methods are those of a Lane, and do what they do there, with these exceptions: Mark does nothing, because the
// claim has marked the attempts; Used is always true; and Closed and Close are about the Borrower: Close ends no
// connection. For what else a Lane can do, use the borrowed one (Lane).
type Borrower struct {
	keeper  *Keeper
	session *session // of the present hold, or the next one
	closed  atomic.Bool

	lane   atomic.Pointer[Lane] // nil: none is borrowed; it is set under mu
	taking atomic.Pointer[Lane] // takes what is held, to be borrowed then; or nil

	mu     sync.Mutex // what is below; held while a lane is borrowed
	hold   *Hold
	loan   *Loan
	missed Miss // why the last claim holds nothing, if it does
	lost   bool // the connection that was borrowed broke while the handler had it

	lends context.Context // it ends with the handler that runs, or with the session; nil: none runs
	waits context.Context // the handler's own: when it has ended, no lane is waited for
}

// Step does what Lane.Step does: it settles what is held, and claims what is next.
func (b *Borrower) Step(ctx context.Context, calls []Call, next *Request) (hold *Hold, settled bool, err error) {
	switch {
	case b.hold != nil:
		err := b.settle(ctx, calls)
		if errors.Is(err, ErrGivenBack) { // nothing of it was committed but that
			_ = b.release(keptHeads(b.hold), 0)
		}
		if err != nil {
			return nil, false, err
		}
	case len(calls) > 0 && b.Closed():
		return nil, false, ErrLost
	case len(calls) > 0:
		return nil, false, ErrNotHeld
	}
	if next != nil {
		hold, err = b.claim(next)
	}
	return hold, true, err
}

// claim asks the session for groups.
func (b *Borrower) claim(next *Request) (*Hold, error) {
	a := &ask{claim: next}
	if err := b.session.do(a); err != nil {
		return nil, err
	}
	b.missed = a.missed
	if a.hold != nil {
		b.mu.Lock()
		b.hold, b.loan, b.lost = a.hold, b.lending(a.hold), false
		b.mu.Unlock()
	}
	return a.hold, nil
}

// settle makes the calls that settle what is held, and lets that go. After an error everything is still held. One
// exception is errNoRow: the other calls are committed then.
func (b *Borrower) settle(ctx context.Context, calls []Call) error {
	heads := keptHeads(b.hold)
	switch {
	case len(heads) == 0: // it was not to run now
		b.forget()
		return nil
	case len(calls) == 0 && b.Closed(): // Record settles it, or it is forfeited
		return nil
	case len(calls) == 0 && b.lost:
		b.Forfeit(ctx)
		return nil
	case len(calls) == 0 && b.lane.Load() == nil:
		return b.release(heads, 0)
	}
	err, wait := errApart, waitBriefly
	if s := b.settlement(heads, calls); s != nil {
		err = b.keeper.settle(s)
		wait = waitBarely // what it needs may be locked, and others are not to wait for that again
	}
	switch {
	case err != errApart: //nolint:errorlint // itself
	case b.lane.Load() == nil:
		err = b.settleOnLane(ctx, b.hold, calls, wait)
	default:
		err = b.settleBorrowed(ctx, b.hold, calls)
	}
	if err == nil || errors.Is(err, errNoRow) {
		b.settled(heads)
	}
	return err
}

// settlement returns how a job is settled together with others, or nil if it is settled by itself.
func (b *Borrower) settlement(heads []*Held, calls []Call) *settlement {
	if b.lane.Load() != nil || len(heads) != 1 || b.keeper.slow.apart(heads[0].Key) {
		return nil
	}
	s := &settlement{head: heads[0]}
	if calls[0].Relaxes {
		s.relax, calls = calls[0].Statement, calls[1:]
	}
	switch {
	case len(calls) > 1 && len(b.hold.Rest) > 0:
		return nil
	case len(calls) > 1 || s.head.marked || !calls[0].Completes:
		s.calls = calls
	}
	return s
}

// settled says that heads are settled, which has let their groups go, and gives their slots back.
func (b *Borrower) settled(heads []*Held) {
	b.free(slices.DeleteFunc(b.drop(heads, 0), func(r release) bool { return r.slot == 0 })) // groups are free
	if len(keptHeads(b.hold)) == 0 {
		b.forget()
	}
}

// FreeSlot gives back the slots of what is held, if its queue has a limit: an operator has taken the group from the
// session, and the handler runs on for as long as it likes.
func (b *Borrower) FreeSlot() {
	var slots []release
	b.mu.Lock()
	for _, h := range keptHeads(b.hold) {
		if h.slot != 0 {
			slots, h.slot = append(slots, release{Key: h.Key, slot: h.slot}), 0
		}
	}
	b.mu.Unlock()
	b.free(slots)
}

// free gives slots back. If it cannot, the session is dead, and they are free.
func (b *Borrower) free(slots []release) {
	if len(slots) > 0 {
		_ = b.session.do(&ask{releases: slots})
	}
}

// release lets heads go without a call: they are given back, or, if next is the number of a dead session, lost.
func (b *Borrower) release(heads []*Held, next int64) error {
	if len(heads) == 0 {
		return nil
	}
	err := b.session.do(&ask{releases: b.drop(heads, next)})
	if errors.Is(err, ErrBusy) || Refused(err) { // it is tried again
		err = nil
	}
	if len(keptHeads(b.hold)) == 0 {
		b.forget()
	}
	return err
}

// drop says that heads are not held any more, and returns what is to be released for that.
func (b *Borrower) drop(heads []*Held, next int64) (some []release) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, h := range heads {
		some = append(some, release{Key: h.Key, token: h.token, next: next})
		if h.slot != 0 {
			some = append(some, release{Key: h.Key, slot: h.slot})
		}
		h.token, h.slot = 0, 0
	}
	return some
}

func (b *Borrower) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loan != nil {
		b.loan.end()
	}
	b.hold, b.loan = nil, nil
}

// Forfeit lets go of what is held and was not settled: the attempt is lost, and whoever claims the job next counts it.
func (b *Borrower) Forfeit(context.Context) {
	if b.hold == nil {
		return
	}
	b.returnLane()
	_ = b.release(keptHeads(b.hold), deadNumber()) // if not, the session is dead, and the attempt is lost as well
	b.forget()
}

// Record settles a head in another transaction than the one that failed, or, without calls, gives it back.
func (b *Borrower) Record(ctx context.Context, head *Held, calls ...Call) error {
	switch {
	case head.token == 0 && len(calls) == 0: // nobody has it
		return nil
	case head.token == 0:
		return ErrNotHeld
	}
	err := b.record(ctx, head, calls)
	if err == nil {
		return nil
	}
	if Refused(err) && !errors.Is(err, ErrNotHeld) {
		b.letGoRefused(ctx, head, chargeOf(calls))
	}
	return fmt.Errorf("lease: record: %w", err)
}

func (b *Borrower) record(ctx context.Context, head *Held, calls []Call) error {
	ctx, cancel := context.WithTimeout(ctx, b.session.bounds.Silence)
	defer cancel()
	b.returnLane()
	err := b.settleOnLane(ctx, &Hold{Held: *head}, calls, waitBriefly)
	if err == nil || errors.Is(err, errNoRow) {
		b.settled([]*Held{head})
	}
	return err
}

// letGoRefused lets go of a group if the server has refused a call for it.
func (b *Borrower) letGoRefused(ctx context.Context, head *Held, charge []Call) {
	to := deadNumber()
	if len(charge) == 0 || !charge[0].isOf(head) {
		if err := b.record(ctx, head, charge); !Refused(err) || errors.Is(err, ErrNotHeld) {
			return
		}
		to = 0 // the group is free; the number of a dead session would charge the head, which has not failed
	}
	b.returnLane()
	_ = b.release([]*Held{head}, to)
}

// deadNumber returns one that no session has had.
func deadNumber() int64 { return 1 + rand.Int64N(1<<62) }

// Lost is Lane.Lost. The claim has told it, by the marks of attempts.
func (b *Borrower) Lost(context.Context) ([]*Held, error) {
	return lostHeads(b.hold), nil
}

// lostHeads returns the heads of a session that have a lost attempt to be counted.
func lostHeads(hold *Hold) []*Held {
	return slices.DeleteFunc(keptHeads(hold), func(h *Held) bool { return !h.marked })
}

// Mark does nothing: the claim has marked the attempts.
func (b *Borrower) Mark(context.Context, []*Held) error { return nil }

// Loan is Lane.Loan.
func (b *Borrower) Loan() *Loan { return b.loan }

// Used reports true: nothing keeps the job's row where it was when it was claimed.
func (b *Borrower) Used() bool { return true }

// Closed reports whether it can claim nothing more.
func (b *Borrower) Closed() bool { return b.closed.Load() || b.session.ended() }

// Close says that it claims nothing more. What it holds is settled by Record, or is forfeited.
func (b *Borrower) Close() error {
	b.closed.Store(true)
	return nil
}

// HungUp reports whether the session has ended, or the connection of the lane that is borrowed.
func (b *Borrower) HungUp() bool {
	lane := b.lane.Load()
	return b.session.ended() || lane != nil && lane.HungUp()
}

// Abandon is Close, and cuts the connection that is borrowed, if one is.
func (b *Borrower) Abandon() {
	if lane := b.Lane(); lane != nil {
		lane.Abandon()
	}
	b.closed.Store(true)
}

// Missed is Lane.Missed. It is never NextLocked: a session has a group alone.
func (b *Borrower) Missed() Miss { return b.missed }

// Lane returns the lane that is borrowed, which needs heartbeats while a handler runs, or is about to be; or nil. The
// session has its own heartbeats, and bounds its waits.
func (b *Borrower) Lane() *Lane { return cmp.Or(b.lane.Load(), b.taking.Load()) }
