package schedule

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A walk over a queue with shares is not cut: it passes the groups for which their shares have no room, so that those
// of others are found, however many are before them. When a share with groups outside the line runs low, its refill
// reads on where there was no more room for it, and round again, until a whole round has left none outside. It also
// takes in what it finds of other shares that have room.
type refill struct {
	queue string
	share *row   // nil: none is needed
	from  string // behind this group
	whole bool   // the round has begun with the first group
	limit int    // groups to read
	asked int    // when it was chosen last
}

// leastRefill is how many groups a refill reads at least: a round trip is to be worth it.
const leastRefill = tuning.Rows / tuning.Many

// nextRefill returns how long the next refill has to wait.
func (s *Scout) nextRefill(view View) time.Duration {
	switch {
	case view.refill.share == nil:
		return tuning.Wait
	case !view.Idle && view.Ready >= tuning.Rows:
		return tuning.Few*s.refilled.cost - time.Since(s.refilled.walked)
	}
	return 0
}

// refill reads the next batch of the refill that comes next.
func (s *Scout) refill(ctx context.Context, conn *pgx.Conn, view View) (err error) {
	f := view.refill
	w, more := &walk{share: f.share, after: f.from, skip: true}, false
	if s.refilled, more, err = s.readOn(ctx, conn, w, f.queue, f.limit); err != nil {
		return err
	}
	s.Turns.with(func(b *book) { b.rooms.refilled(f.queue, w, more) })
	return nil
}
