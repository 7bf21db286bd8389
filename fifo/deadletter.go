package fifo

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/groups"
)

// A DeadLetterJob is a job that was given up. Its group went on without it.
type DeadLetterJob struct {
	bun.BaseModel `bun:"table:pgfifo.dead_letters,alias:dead"`

	Queue       string    `bun:"queue,pk"`
	GroupID     string    `bun:"group_id,pk"`
	ID          int64     `bun:"id,pk"` // the job's, which a redrive keeps
	Payload     []byte    `bun:"payload,notnull"`
	Headers     Headers   `bun:"headers,type:jsonb,nullzero"`
	Attempts    int       `bun:"attempts,notnull"`
	MaxAttempts int       `bun:"max_attempts,nullzero"`
	EnqueuedAt  time.Time `bun:"enqueued_at,notnull"`
	DiedAt      time.Time `bun:"died_at,nullzero,notnull,default:statement_timestamp()"`
	Failures    []Failure `bun:"failures,type:jsonb,nullzero"` // oldest first: the last one is what killed it
}

// Group returns the key of the group that the job belonged to.
func (d *DeadLetterJob) Group() groups.Key { return groups.Key{Queue: d.Queue, GroupID: d.GroupID} }

// Redrive moves the dead letters with the given ids, and no others, back to their original places in their groups, to
// be tried anew. It returns how many there were: ids that are not among the scope's dead letters are passed over, and
// without ids it does nothing.
//
// Jobs of the group that were enqueued later run after them, but for those that a worker has claimed before it hears of
// the redrive. A worker that hears no notifications learns of it when it next looks for work: within PollInterval, or
// twenty times as long as such a look takes if that is more.
func (s Scope) Redrive(ctx context.Context, ids ...int64) (int, error) {
	if len(ids) == 0 {
		return 0, s.validate()
	}
	return s.redrive(ctx, intArray(ids))
}

// RedriveAll is Redrive of all dead letters of the queue or group.
func (s Scope) RedriveAll(ctx context.Context) (int, error) { return s.redrive(ctx, nil) }

// redrive takes ids as an array's text, or nil for all.
func (s Scope) redrive(ctx context.Context, ids any) (int, error) {
	n, xid, back := 0, int64(0), make(hints)
	err := s.change(ctx, "redrive", redriveSQL, func(r row) error {
		var group string
		var id int64
		err := r.Scan(&group, &id, &xid)
		n++
		back.add(s.queue, group, id, true)
		return err
	}, s.queue, s.groupOrNull(), ids)
	if err != nil {
		return 0, err
	}
	if n > 0 {
		s.announce(xid, func(h hints) { h.addAll(back) })
	}
	return n, nil
}

// DeleteDeadLetters deletes the dead letters with the given ids, and no others, for good. It returns how many there
// were: ids that are not among the scope's dead letters are passed over, and without ids it does nothing.
func (s Scope) DeleteDeadLetters(ctx context.Context, ids ...int64) (int, error) {
	if len(ids) == 0 {
		return 0, s.validate()
	}
	return s.deleteDeadLetters(ctx, intArray(ids))
}

// DeleteAllDeadLetters deletes all dead letters of the queue or group for good, and returns how many there were.
func (s Scope) DeleteAllDeadLetters(ctx context.Context) (int, error) {
	return s.deleteDeadLetters(ctx, nil)
}

// deleteDeadLetters takes ids as an array's text, or nil for all.
func (s Scope) deleteDeadLetters(ctx context.Context, ids any) (int, error) {
	return s.count(ctx, "delete dead letters of", deleteDeadLettersSQL, s.queue, s.groupOrNull(), ids)
}
