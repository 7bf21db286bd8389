package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// claimOpenSQL tells whether a claim's transaction ($1) is open.
const claimOpenSQL = "SELECT pg_xact_status($1::bigint::text::xid8) = 'in progress'"

// ErrNoControl is returned by what needs the Dialer's Control pool, where it has none.
var ErrNoControl = errors.New("lease: the Dialer has no Control pool")

// ErrPaused is returned by Mark: what is held has been paused since it was claimed.
var ErrPaused = errors.New("lease: paused since it was claimed")

// mark marks the attempts of heads in a transaction of its own, and looks whether their claim is open then.
func (r *recorder) mark(ctx context.Context, heads []*Held) error {
	if len(heads) == 0 {
		return nil
	}
	if r.control == nil {
		return ErrNoControl
	}
	ctx, cancel := context.WithTimeout(ctx, r.bounds.Silence)
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
	conn, err := r.control.Acquire(wait)
	if err == nil {
		defer conn.Release()
		// An error may come after the marks are made, so they are taken back in any case.
		r.marked = append(r.marked, heads...)
		var b pgx.Batch
		held := false
		b.Queue(beginSQL)
		b.Queue(r.schema.Qualify(statement("mark")), queues, ids, jobs, attempts, xids, slots)
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

// pausedSince reports whether a pause has come for what is held.
func pausedSince(p *pipeline, hold *Hold) (paused bool, err error) {
	ids := columnsOf(slices.Collect(hold.Heads())).groups
	p.send(stmtPaused, [][]byte{[]byte(hold.Queue), ids}, func(r *rowReader) { paused = r.bool() })
	err = p.exchange()
	return paused, err
}

// unmarkArgs returns the parameters of unmark.sql for jobs.
func unmarkArgs(heads []*Held) [][]byte {
	c := columnsOf(heads)
	return [][]byte{c.queues, c.groups, c.jobs}
}
