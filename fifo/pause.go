package fifo

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"
)

// A Pause stops a group, or with an empty GroupID a queue, from being worked.
type Pause struct {
	bun.BaseModel `bun:"table:pgfifo.pauses,alias:p"`

	GroupID  string    `bun:"group_id,pk"`
	Queue    string    `bun:"queue,pk"`
	Reason   string    `bun:"reason,notnull"`
	PausedAt time.Time `bun:"paused_at,notnull,default:statement_timestamp()"`
	// Job is the job that blocks the group, or 0: see BlockGroup.
	Job int64 `bun:"job,nullzero"`
	// ByHand says that an operator has paused it, whether a job blocks it as well or not.
	ByHand bool `bun:"by_hand,notnull,default:true"`
	// Limited is false of every pause. In queries of your own, leave out the rows with true: they are no pauses, but
	// mark the queues that have a limit.
	Limited bool `bun:"limited,pk"`
}

// MaxReasonBytes is the longest reason of a pause, in bytes of UTF-8.
const MaxReasonBytes = 1024

// Pause stops the queue or the group from being worked. A job that is running ends normally. No claim that begins after
// Pause has returned (in a transaction of the caller's: after its commit) starts a job: each claim looks.
//
// The reason is for people, and may be empty: valid UTF-8 without a NUL, at most MaxReasonBytes. Else Pause returns
// ErrInvalidID. Pausing what is paused replaces the reason.
//
// It returns whether the queue or group was paused already, or blocked, and how many jobs it has, a running one
// included: at most MaxQueued are counted. If there are none, what is enqueued there later waits all the same; or the
// name may be wrong.
//
// A handler pauses on a pool, not in its job's transaction. With the roles of package migrations it needs a second
// Client for that, on the pool of an admin's login: the worker's may neither pause nor resume (42501). Until the job
// ends, workers do not see a pause that is made in its transaction, and others who pause or resume the same queue or
// group wait. So do those who take jobs out of that group, if a job blocks it. An attempt that fails undoes the pause.
func (s Scope) Pause(ctx context.Context, reason string) (was bool, jobs int, err error) {
	p, err := s.pause(ctx, "pause", reason)
	return p.was, p.jobs, err
}

// A pausing is what Pause has done.
type pausing struct {
	was     bool
	xid, at int64 // at is when the pause began, in microseconds
	jobs    int
}

func (s Scope) pause(ctx context.Context, verb, reason string) (p pausing, err error) {
	if err := checkReason(reason); err != nil {
		return pausing{}, err
	}
	did := into(&p.was, &p.xid, &p.at, &p.jobs)
	err = s.change(ctx, verb, statement("pause"), did, s.queue, s.group, reason, MaxQueued)
	return p, err
}

// checkReason looks at what an operator gives as a reason.
func checkReason(reason string) error {
	if len(reason) > MaxReasonBytes || !storable(reason) {
		return fmt.Errorf("%w: the reason is over %d bytes long, not valid UTF-8, or has a NUL",
			ErrInvalidID, MaxReasonBytes)
	}
	return nil
}

// Resume undoes Pause of the same queue or group, and reports whether it was paused. What was paused by itself stays
// paused: resuming a queue does not resume its paused groups, nor the other way round. A job that has blocked the group
// (BlockGroup) has all its attempts again. Workers are told, and look at once, or when the caller's transaction has
// committed. Those that hear no notifications notice at their next poll. Each Resume that undoes a pause makes every
// worker of the schema look at all groups of its queues once, which takes seconds of a core for a million of them.
func (s Scope) Resume(ctx context.Context) (bool, error) {
	xid, err := s.alter(ctx, "resume", statement("resume"), s.queue, s.group)
	if err != nil || xid == 0 {
		return false, err
	}
	s.announce(xid, s.hint)
	return true, nil
}

// Purge deletes the jobs that wait, undoes the blocks that they have made (BlockGroup), and returns how many jobs those
// were. A running job stays, and so does one that somebody else has locked. A batch has the first job of its group
// locked and no other: those behind it are deleted, and the batch is undone and runs again without them. Run it inside
// a transaction to look before you commit: the jobs stand still until then. Workers are told.
func (s Scope) Purge(ctx context.Context) (n int, err error) {
	xid := int64(0)
	err = s.unblocking(ctx, "purge", func(s Scope) error {
		return s.change(ctx, "purge", statement("purge"), into(&n, &xid), s.queue, s.groupOrNull())
	})
	if err != nil {
		return 0, err
	}
	if n > 0 {
		s.announce(xid, s.hint)
	}
	return n, nil
}

// unblocking calls take, which takes jobs away, and undoes the blocks that these have made.
func (s Scope) unblocking(ctx context.Context, verb string, take func(Scope) error) error {
	return s.together(ctx, verb, func(s Scope) error {
		if err := take(s); err != nil {
			return err
		}
		return s.change(ctx, verb, statement("unblock"), func(row) error { return nil }, s.queue, s.groupOrNull())
	})
}
