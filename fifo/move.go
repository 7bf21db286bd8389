package fifo

import (
	"context"
	"fmt"
)

// Move moves the jobs that wait to another queue or group, behind those that are there, and returns how many those
// were. They keep their order, payloads, headers, times and failures; they get new ids, and their attempts begin anew.
// A queue moved to a group, of it or of another queue, becomes part of that; moved to a queue, it keeps its groups, as
// one group does. What is there already stays where it is. In is s's, whatever to has.
//
// A running job is left alone, and not waited for: what is moved may run beside it. So does what somebody else has
// locked, as Edit does. To keep the order, pause the scope, and wait until nothing in it is held. Those behind it in a
// batch are not locked: they are moved, and the batch is undone and runs again without them. What is enqueued meanwhile
// stays; pause the scope before, and stop its producers, to move all of it. With Config.CommitOrder, Move waits for
// open transactions that have enqueued to the groups moved to.
func (s Scope) Move(ctx context.Context, to Scope) (int, error) {
	if err := to.validate(); err != nil {
		return 0, err
	}
	if s.client != nil && to.client.schema != s.client.schema {
		return 0, fmt.Errorf("%w: %v is in another schema", ErrInvalidID, to)
	}
	n, xid, there := 0, int64(0), make(hints)
	err := s.unblocking(ctx, "move", func(s Scope) error {
		return s.change(ctx, "move", moveSQL, func(r row) error {
			var group string
			var jobs int
			var first int64
			err := r.Scan(&group, &jobs, &first, &xid)
			n += jobs
			there.add(to.queue, group, first, false)
			return err
		}, s.queue, s.groupOrNull(), to.queue, to.groupOrNull(), s.client.cfg.CommitOrder)
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		s.announce(xid, func(h hints) { h.addAll(there) })
	}
	return n, nil
}
