package schedule

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A walk over a queue with shares is not cut: it passes the groups for which their shares have no room, so that those
// of others are found, however many are before them. When a share with groups outside the line runs low, its refill
// reads on where there was no more room for it, and round again, until a whole round has left none outside. What it
// finds of other shares that have room is taken in by the way.
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

// refillOf returns the refill of one of a queue's shares if it comes before next: of those that are low, the share that
// was chosen least lately.
func (t *Turns) refillOf(queue *row, next refill) refill {
	for _, part := range queue.shares.overflowed {
		if t.low(part, queue.name) && (next.share == nil || part.refill.asked < next.asked) {
			next = part.refill
			next.queue, next.share = queue.name, part
			next.limit = min(max(2*t.room(queue.name, part, nil), leastRefill), tuning.Rows)
		}
	}
	return next
}

// refilled enters how far a refill has come; more says that there may be groups behind.
func (t *Turns) refilled(queue string, w *walk, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	part, f := w.share, &w.share.refill
	t.refills++
	f.asked = t.refills
	switch {
	case w.cut:
		f.from = w.until
	case more:
		f.from = w.after
	case !f.whole || part.dropped:
		f.from, f.whole, part.dropped = "", true, false
	default:
		part.overflowed = false
		l := t.line.row(queue).shares
		l.overflowed = slices.DeleteFunc(l.overflowed, func(r *row) bool { return r == part })
	}
}

// nextRefill returns how long the next refill has to wait.
func (s *Scout) nextRefill(view View) time.Duration {
	switch {
	case view.refill.share == nil:
		return tuning.Wait
	case !view.Idle && view.Ready >= tuning.Rows:
		return tuning.Few*s.refills.cost - time.Since(s.refills.walked)
	}
	return 0
}

// refill reads the next batch of a refill.
func (s *Scout) refill(ctx context.Context, conn *pgx.Conn, view View) (err error) {
	f := view.refill
	w, more := &walk{share: f.share, after: f.from, skip: true}, false
	if s.refills, more, err = s.readOn(ctx, conn, w, f.queue, f.limit); err != nil {
		return err
	}
	s.Turns.refilled(f.queue, w, more)
	return nil
}
