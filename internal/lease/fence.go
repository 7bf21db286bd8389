package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
)

// Fence returns the fencing token of the claim for one of the groups that it holds: a number higher than that of every
// earlier claim of the group, committed before it is returned. The first call takes the job's transaction, as PgxTx
// does, and a connection of the Dialer's Control pool for a moment; until the next job, further calls return the same
// number.
//
// It returns ErrLost if the claim's transaction has ended: somebody else may hold the group.
func (l *Loan) Fence(ctx context.Context, key groups.Key) (int64, error) {
	l.fencing.Lock()
	defer l.fencing.Unlock()
	token, ok := l.fences[key]
	switch {
	case l.from != nil && l.Ended():
		return 0, ErrEnded
	case l.from != nil && (!ok || l.from.session.ended()):
		return 0, fmt.Errorf("lease: fence: %w", ErrLost)
	case ok:
		return token, nil
	case l.lane.control == nil:
		return 0, ErrNoControl
	}
	xid, err := l.claim(ctx, key)
	if err == nil {
		token, err = l.draw(ctx, key, xid)
	}
	if err != nil {
		return 0, l.fenceError(err)
	}
	if l.fences == nil {
		l.fences = make(map[groups.Key]int64)
	}
	l.fences[key] = token
	return token, nil
}

// draw draws a token in a transaction of its own, in one round trip. READ COMMITTED, whatever the database's default
// is: a former holder may be drawing, and then this waits for it.
func (l *Loan) draw(ctx context.Context, key groups.Key, xid string) (token int64, err error) {
	var b pgx.Batch
	b.Queue(beginSQL)
	b.Queue(l.lane.schema.Qualify(statement("fence")), key.Queue, key.GroupID, xid).QueryRow(func(row pgx.Row) error {
		return row.Scan(&token)
	})
	b.Queue(commitSQL)
	err = l.lane.control.SendBatch(ctx, &b).Close()
	return token, err
}

// claim returns the id of the transaction that claimed the group, which must be the one that is open.
func (l *Loan) claim(ctx context.Context, key groups.Key) (xid string, err error) {
	tx, err := l.beside(ctx)
	if err != nil {
		return "", err
	}
	sql := statement("fence_claim")
	if l.groupSlot {
		sql = strings.Replace(sql, "queue_groups", "group_slots", 1)
	}
	err = tx.QueryRow(ctx, l.lane.schema.Qualify(sql), key.Queue, key.GroupID).Scan(&xid)
	if rolled := tx.Rollback(ctx); err == nil { // nothing was written
		err = rolled
	}
	return xid, err
}

// beside returns a transaction of its own within the job's, also if the handler has one.
func (l *Loan) beside(ctx context.Context) (pgx.Tx, error) {
	l.mu.Lock()
	open := l.pgxTx
	l.mu.Unlock()
	if open != nil {
		return open.Begin(ctx)
	}
	return l.PgxTx(ctx)
}

// fenceError returns an error as Fence does: it is ErrLost if the claim's transaction has ended, or if the server has
// lost its newest commits and never heard of it.
func (l *Loan) fenceError(err error) error {
	if errors.Is(err, pgx.ErrNoRows) || sqlState(err) == "22023" || l.lane.Closed() {
		err = errors.Join(ErrLost, err)
	}
	return fmt.Errorf("lease: fence: %w", err)
}
