package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// claimOpenSQL tells whether a claim's transaction ($1) is open.
const claimOpenSQL = "SELECT pg_xact_status($1::bigint::text::xid8) = 'in progress'"

// ErrNoControl is returned by what needs the Dialer's Control pool, where it has none.
var ErrNoControl = errors.New("lease: the Dialer has no Control pool")

// ErrPaused is returned by Mark: what is held has been paused since it was claimed.
var ErrPaused = errors.New("lease: paused since it was claimed")

// Mark marks the attempts of held heads as begun, durably: if they die, whoever claims them next knows, whatever
// becomes of the evidence that their locks leave.
//
// It takes a connection of the Control pool for a moment, and waits a second for one at most, and for the server as
// long as the lane does. The lane takes the marks back when the heads are settled or given back. A mark that comes
// later than that is not made.
//
// It returns ErrLost if the claim has ended by the time the marks are committed: nothing of it may begin then. Somebody
// else may have claimed the heads before the marks were there to be seen. It returns ErrPaused if marking has taken
// long, and a pause has come meanwhile, whether the marks were made or not; but a job of a group of which several may
// run has started with its mark, and is not given back for a pause.
func (l *Lane) Mark(ctx context.Context, heads []*Held) error {
	begin := time.Now()
	err := l.mark(ctx, heads)
	if time.Since(begin) < tuning.Look || errors.Is(err, ErrLost) || l.HungUp() || l.hold.GroupSlot {
		return err
	}
	if paused := l.paused(ctx); paused != nil {
		return paused
	}
	return err
}

// paused returns ErrPaused if a pause has come for what is held.
func (l *Lane) paused(ctx context.Context) error {
	paused, p := false, l.pipeline(ctx)
	ids := columnsOf(slices.Collect(l.hold.Heads())).groups
	p.send(stmtPaused, [][]byte{[]byte(l.hold.Queue), ids}, func(r *rowReader) { paused = r.bool() })
	switch err := p.exchange(); {
	case err != nil:
		_ = l.Close()
		return fmt.Errorf("%w: look for a pause: %w", ErrLost, err)
	case paused:
		return ErrPaused
	}
	return nil
}

func (l *Lane) mark(ctx context.Context, heads []*Held) error {
	if len(heads) == 0 {
		return nil
	}
	if l.control == nil {
		return ErrNoControl
	}
	ctx, cancel := context.WithTimeout(ctx, l.bounds.Silence)
	defer cancel()
	queues, ids, jobs := make([]string, len(heads)), make([]string, len(heads)), make([]int64, len(heads))
	attempts, xids, slots := make([]int32, len(heads)), make([]int64, len(heads)), make([]bool, len(heads))
	for i, h := range heads {
		queues[i], ids[i], jobs[i], attempts[i], xids[i] = h.Queue, h.GroupID, h.ID, int32(h.Attempts+1), h.Seen.XID
		slots[i] = h.GroupSlot
	}
	// The pool may be the application's, and all of it in use: the job is not to wait for that for long, and its locks
	// tell of a crash as well.
	wait, stop := context.WithTimeout(ctx, tuning.Wait)
	defer stop()
	conn, err := l.control.Acquire(wait)
	if err == nil {
		defer conn.Release()
		// An error may come after the marks are made, so they are taken back in any case.
		l.marked = append(l.marked, heads...)
		var b pgx.Batch
		held := false
		b.Queue(beginSQL)
		b.Queue(l.schema.Qualify(statement("mark")), queues, ids, jobs, attempts, xids, slots)
		b.Queue(commitSQL)
		b.Queue(claimOpenSQL, xids[0]).QueryRow(func(row pgx.Row) error { return row.Scan(&held) })
		if err = conn.SendBatch(ctx, &b).Close(); err == nil && !held {
			err = ErrLost
		}
	}
	if err != nil {
		return fmt.Errorf("lease: mark: %w", err)
	}
	return nil
}

// unmarkArgs returns the parameters of unmark.sql for jobs.
func unmarkArgs(heads []*Held) [][]byte {
	c := columnsOf(heads)
	return [][]byte{c.queues, c.groups, c.jobs}
}
