package fifo

import (
	"context"

	"github.com/pgfifo/pgfifo/internal/lease"
)

// A holder is what a seat has its groups by: a lease.Lane, whose open transaction holds them, or, in queues with
// Settings.SessionLease, a lease.Borrower, for which the session of a lease.Keeper holds them.
type holder interface {
	Step(ctx context.Context, calls []lease.Call, next *lease.Request) (hold *lease.Hold, settled bool, err error)
	Forfeit(ctx context.Context)
	Record(ctx context.Context, head *lease.Held, calls ...lease.Call) error
	Charge(ctx context.Context, head *lease.Held) error

	Lost(ctx context.Context) ([]*lease.Held, error)
	Mark(ctx context.Context, heads []*lease.Held) error
	Loan() *lease.Loan
	Lend(ctx context.Context, handler func()) error
	KeepWrites(ctx context.Context) error
	Used() bool
	Missed() lease.Miss

	Lane() *lease.Lane
	HungUp() bool
	Closed() bool
	Close() error
	Abandon()
}
