package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
)

// headSQL finds the head of a group, and who has locked its row last: $1 queue, $2 group id.
const headSQL = "SELECT id, attempts, xmax::text::bigint FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 " +
	"ORDER BY queue, group_id, id LIMIT 1"

// Cover is called for each group of a claim that the server has refused. If the claim had locked the group, its
// rollback may look like a death to the next claim. So Cover locks the group again and commits. That would also hide a
// real death before the claim. So it looks for one first, and marks that attempt: whoever claims the job next counts
// it.
//
// If the claim had locked the head, too, an earlier death can no longer be seen.
func (l *Lane) Cover(ctx context.Context, key groups.Key) error {
	i := slices.IndexFunc(l.claims.locked, func(one groupLock) bool { return one.Key == key })
	if i < 0 { // the claim has locked nothing here
		return nil
	}
	head, lost, err := l.lostBefore(ctx, l.claims.locked[i])
	switch {
	case err != nil:
		return fmt.Errorf("lease: cover: %w", err)
	case lost:
		return l.Charge(ctx, head, head.ID, head.Attempts)
	}
	return l.Record(ctx, &Held{Key: key})
}

// lostBefore reports whether the worker of a group's head had died with it before a claim that was refused. If the
// claim had locked the head itself, the answer is no: its lock is newer than the group's earlier one.
func (l *Lane) lostBefore(ctx context.Context, one groupLock) (head *Held, lost bool, err error) {
	if l.control == nil {
		return nil, false, ErrNoControl
	}
	ctx, cancel := context.WithTimeout(ctx, l.bounds.Silence)
	defer cancel()
	head = &Held{Key: one.Key}
	var job int64
	err = l.control.QueryRow(ctx, l.schema.Qualify(headSQL), one.Queue, one.GroupID).
		Scan(&head.ID, &head.Attempts, &job)
	if err == nil {
		err = l.control.QueryRow(ctx, statement("evidence"), job, int64(one.before)).Scan(&lost)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return head, lost, err
}

// Cover does nothing: what a session's claim leaves on the rows is no evidence.
func (b *Borrower) Cover(context.Context, groups.Key) error { return nil }
