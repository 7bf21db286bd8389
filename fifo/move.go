package fifo

import (
	"cmp"
	"context"
	"fmt"
)

// Move moves the jobs that wait to another queue or group, behind those that are there, and returns how many it has
// moved. They keep their order, payloads, headers, times and failures; they get new ids, and their attempts begin anew.
// If target is a group, all jobs go into that group. If target is a queue, each job keeps its group id. Jobs of s that
// are jobs of target already stay where they are. Only the transaction and the database of s count; those of target are
// ignored.
//
// A running job stays, and what is moved may run beside it. A job that somebody else has locked stays too. To keep the
// order, pause the scope, and move in a transaction (In). Then ask for Jobs in that transaction. If it finds none in s,
// commit; if target is a part of s, the jobs of target do not count. Else roll back, and try again when what runs has
// ended. Groups does not tell that: it shows heads, and a job behind one may run. A batch has the first job of its
// group locked and no other: those behind it are moved, and the batch is undone and runs again without them. What is
// enqueued meanwhile stays: to move all of it, pause the scope and stop its producers before. With Config.CommitOrder,
// Move waits for open transactions that have enqueued to the groups moved to, and each of those groups is a lock in the
// server's table of locks.
//
// It returns ErrInvalidID also for a scope of another schema.
func (s Scope) Move(ctx context.Context, target Scope) (int, error) {
	if err := cmp.Or(s.validate(), target.validate()); err != nil {
		return 0, err
	}
	if target.client.schema != s.client.schema {
		return 0, fmt.Errorf("%w: %v is in another schema", ErrInvalidID, target)
	}
	n, xid, there := 0, int64(0), make(hints)
	err := s.unblocking(ctx, "move", func(s Scope) error {
		return s.change(ctx, "move", statement("move"), func(r row) error {
			var group string
			var jobs int
			var first int64
			err := r.Scan(&group, &jobs, &first, &xid)
			n += jobs
			there.add(target.queue, group, first, false)
			return err
		}, s.queue, s.groupOrNull(), target.queue, target.groupOrNull(), s.client.cfg.CommitOrder)
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		s.announce(xid, func(h hints) {
			h.addAll(there)
			s.hint(h) // what is left there
		})
	}
	return n, nil
}
