package fifo

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/internal/lease"
)

// A kind is one of the leases that a queue may have. Package lease says what it is like for jobs. pgfifo.lives and
// pgfifo.keepers of the schema say who lives and holds groups by it.
type kind struct {
	name        string            // in the database
	concurrency string            // the field of a Worker that says how many jobs of such queues run at once,
	lanes       func(*Worker) int // and what it says
	source      func(*crew) source
}

// A source is where the seats of a crew get their holders.
type source struct {
	dials  []func(context.Context) error // what opens the connections that holders need, each one
	holder func(context.Context) (holder, error)
	close  func(wait time.Duration)
}

var (
	transaction = &kind{"transaction", "Concurrency", (*Worker).concurrency, func(c *crew) source {
		lanes := source{
			holder: func(ctx context.Context) (holder, error) { return c.dialer.Dial(ctx) },
			close:  func(time.Duration) {},
		}
		for _, s := range c.seats { // each has a connection of its own
			lanes.dials = append(lanes.dials, s.dial)
		}
		return lanes
	}}
	session = &kind{"session", "SessionConcurrency", (*Worker).sessionConcurrency, func(c *crew) source {
		k := lease.NewKeeper(c.dialer, c.worker.concurrency(), c.lostSession)
		return source{k.Dials(), func(ctx context.Context) (holder, error) { return k.Borrow(ctx) }, k.Close}
	}}
	kinds = []*kind{transaction, session}
)

// kindOf returns the lease of that name. A lease of a newer release is taken for the default, which leaves alone what
// others hold.
func kindOf(name string) *kind {
	return kinds[max(slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name }), 0)]
}

// A holder holds the groups of a seat. It is a lease.Lane, whose open transaction holds them, or, in queues with
// Settings.SessionLease, a lease.Borrower, for which the session of a lease.Keeper holds them.
type holder interface {
	Step(ctx context.Context, calls []lease.Call, next *lease.Request) (hold *lease.Hold, settled bool, err error)
	Forfeit(ctx context.Context)
	Record(ctx context.Context, head *lease.Held, calls ...lease.Call) error

	Lost(ctx context.Context) ([]*lease.Held, error)
	Mark(ctx context.Context, heads []*lease.Held) error
	Loan() *lease.Loan
	Lend(ctx context.Context, handler func()) error
	FreeSlot()
	KeepWrites(ctx context.Context) error
	Used() bool
	Missed() lease.Miss

	Lane() *lease.Lane
	HungUp() bool
	Closed() bool
	Close() error
	Abandon()
}

// leasesOf tells which one each of the queues has.
func leasesOf(ctx context.Context, c *Client, on pgxQuerier, queues []string) (map[string]*kind, error) {
	leases := make(map[string]*kind)
	err := each(ctx, pgxSession{on}, c.schema.Qualify(statement("leases")), func(r row) error {
		var queue, name string
		err := r.Scan(&queue, &name)
		leases[queue] = kindOf(name)
		return err
	}, queues)
	if err != nil {
		return nil, fmt.Errorf("fifo: look which lease queues have: %w", err)
	}
	return leases, nil
}
