package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/array"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

const (
	// unchangedSQL finds a job that is as it was claimed: $1 queue, $2 group id, $3 id, $4 attempts.
	unchangedSQL = "SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4"
	// relockHeadSQL locks it, but only if relock.sql has locked its group: else the lock would hide a lost attempt from
	// whoever has the group.
	relockHeadSQL = unchangedSQL + " AND pg_current_xact_id_if_assigned() IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED"
	// endingSQL finds a group whose row is still the lost transaction's: $1 queue, $2 group id, $3 as relock.sql's $4.
	endingSQL = "SELECT FROM pgfifo.queue_groups WHERE queue = $1 AND group_id = $2 " +
		"AND xmax::text = ANY ($3::text[])"
	// endingGroupSlotSQL finds a job whose row is still the lost transaction's: $1 to $3 as in endingSQL, $4 id.
	endingGroupSlotSQL = "SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 " +
		"AND xmax::text = ANY ($3::text[]) AND id = $4"

	saveCallsSQL = "SAVEPOINT pgfifo_calls"
	undoCallsSQL = "ROLLBACK TO SAVEPOINT pgfifo_calls"
	keepCallsSQL = constraintsSQL + "; SET LOCAL statement_timeout TO DEFAULT"
)

// A recorder is the part of a lane that does things on other connections: it marks attempts, and settles what the lane
// cannot settle any more.
type recorder struct {
	*link
	schema schema.Name
	stmts  statements
	marked []*Held // heads whose attempts are marked; the lane takes that back with its transaction
}

var errUnchanged = errors.New("lease: the server has left the row as it was: a trigger?")

// Record settles a held head on the Control pool, when the transaction that claimed it is lost while its worker lives:
// it was ended by the handler, or its commit was refused. Nil for calls gives the job back. In both cases the lost
// transaction is no evidence of a crash afterwards. The parameters of a call begin with the job's queue, group id, id
// and attempts. All calls are for one job: the head, or one behind it.
//
// It returns ErrNotHeld if another worker has the group, or has died with it, or if a call finds the job other than it
// was claimed: then that worker finds the lost attempt and counts it, unless the handler has sent COMMIT itself. If the
// server refuses a call, Record returns that error: the group is given back, and an attempt that the call counts
// (Call.Counts) is left to whoever claims its job next, unless that is behind the head, and the server refuses to mark
// it, too. After any other error nothing is recorded, or, if the connection broke, it is not known.
func (r *recorder) Record(ctx context.Context, head *Held, calls ...Call) error {
	if r.control == nil {
		return ErrNoControl
	}
	ctx, cancel := context.WithTimeout(ctx, r.bounds.Silence)
	defer cancel()
	lost := []uint32{uint32(head.Seen.XID)}
	var own uint32
	var first, refused, err error
	for range 3 { // the pool's session may end, and the server refuse
		own, refused, err = r.recordOnce(ctx, head, lost, calls)
		if err == nil || errors.Is(err, ErrNotHeld) || ctx.Err() != nil {
			break
		}
		if own == 0 {
			continue
		}
		lost = append(lost, own)
		if Refused(err) { // until the attempt is left, the rollback charges the head
			first, calls = cmp.Or(first, err), chargeOf(calls)
		}
	}
	if err = cmp.Or(first, refused, err); err != nil {
		return fmt.Errorf("lease: record: %w", err)
	}
	return nil
}

// transaction runs f in a transaction on the Control pool, and commits that if f returns nil. It waits for a connection
// until the context waits ends.
func (r *recorder) transaction(ctx, waits context.Context, f func(*pgconn.PgConn) error) error {
	conn, err := r.control.Acquire(waits)
	if err != nil {
		return err
	}
	defer conn.Release() // closes it if a transaction is open
	return commits(ctx, conn.Conn().PgConn(), f)
}

// commits runs f in a transaction, and commits that if f returns nil.
func commits(ctx context.Context, pg *pgconn.PgConn, f func(*pgconn.PgConn) error) error {
	if _, err := pg.Exec(ctx, beginSQL).ReadAll(); err != nil {
		return err
	}
	if err := f(pg); err != nil {
		return err
	}
	_, err := pg.Exec(ctx, commitSQL).ReadAll()
	return err
}

// recordOnce is one try of Record. It returns its transaction, if it got that far, and the error of a call that was
// refused, if the rest is committed. lost are the transactions of the attempt that have ended.
func (r *recorder) recordOnce(ctx context.Context, head *Held, lost []uint32, calls []Call,
) (own uint32, refused, err error) {
	held := false
	err = r.transaction(ctx, ctx, func(pg *pgconn.PgConn) error {
		if own, err = r.relock(ctx, pg, head, lost, len(calls) > 0); own == 0 {
			return err // if it is nil, nothing is committed, which is no evidence then
		}
		held = true
		switch {
		case len(calls) == 0:
		case calls[0].isOf(head):
			held, err = r.recordCalls(ctx, pg, calls)
		default:
			held, refused, err = r.recordBehind(ctx, pg, calls)
		}
		if err == nil && held && (len(calls) == 0 || !calls[0].charges(head)) {
			_, err = r.record(ctx, pg, r.stmts[stmtUnmark].SQL, unmarkArgs([]*Held{head}))
		}
		return err
	})
	if err == nil && !held {
		err = ErrNotHeld
	}
	return own, refused, err
}

// chargeOf returns the call that leaves an attempt to whoever claims its job next, if calls count one; or nothing.
func chargeOf(calls []Call) []Call {
	if i := slices.IndexFunc(calls, func(c Call) bool { return c.Counts }); i >= 0 {
		return []Call{{Statement: stmtCharge, Args: calls[i].Args[:4], Counts: true}}
	}
	return nil
}

// isOf reports whether the call is for the head's own job.
func (c *Call) isOf(head *Held) bool { return bytes.Equal(c.Args[2], appendInt(head.ID)) }

// charges reports whether a call leaves the attempt of the head to whoever claims that next.
func (c *Call) charges(head *Held) bool { return c.Statement == stmtCharge && c.isOf(head) }

// recordBehind makes the calls for a job behind the head. If the server refuses one, all of them are undone, and the
// job is charged, while the group is still locked: the rollback of the transaction would charge the head. A savepoint
// around calls for the head itself would make a MultiXact of its xmax, which is no evidence if the worker dies then.
func (r *recorder) recordBehind(ctx context.Context, pg *pgconn.PgConn, calls []Call) (found bool, refused, err error) {
	if _, err := pg.Exec(ctx, saveCallsSQL).ReadAll(); err != nil {
		return false, nil, err
	}
	if found, err = r.recordCalls(ctx, pg, calls); err == nil || !Refused(err) {
		return found, nil, err
	}
	refused = err
	if _, err = pg.Exec(ctx, undoCallsSQL).ReadAll(); err == nil {
		if _, err = r.recordCalls(ctx, pg, chargeOf(calls)); Refused(err) { // nobody is charged then
			refused = errors.Join(refused, err)
			_, err = pg.Exec(ctx, undoCallsSQL).ReadAll()
		}
	}
	return true, refused, err
}

// recordCalls makes the calls, and reports whether each has found its job. Somebody may keep the job open: one behind
// the head at any time, the head since its claim was lost. So the server ends a call when half of the time that is left
// is over: what follows a refusal needs time, too. Deferred constraints are checked here, so that COMMIT does not
// refuse.
func (r *recorder) recordCalls(ctx context.Context, pg *pgconn.PgConn, calls []Call) (found bool, err error) {
	deadline, _ := ctx.Deadline()
	found, err = r.record(ctx, pg, r.stmts[stmtBoundBy].SQL, boundBy(time.Until(deadline)/2).Args)
	for i := 0; err == nil && found && i < len(calls); i++ {
		found, err = r.record(ctx, pg, r.stmts[calls[i].Statement].SQL, calls[i].Args)
		if unchanged := false; err == nil && !found {
			if unchanged, err = r.record(ctx, pg, r.schema.Qualify(unchangedSQL), calls[i].Args[:4]); unchanged {
				err = errUnchanged
			}
		}
	}
	if err == nil {
		_, err = pg.Exec(ctx, keepCallsSQL).ReadAll()
	}
	return found, err
}

// args are the parameters with which a call begins.
func (h *Held) args() [][]byte {
	return [][]byte{[]byte(h.Queue), []byte(h.GroupID), appendInt(h.ID), appendInt(int64(h.Attempts))}
}

// relock locks the group's row and returns its own transaction, or 0 if somebody else has the group, or has died with
// it. If an attempt is to be counted, it locks the head's row, too, as a claim does, and both are sent at once: if the
// worker dies now, it is this transaction that tells of that. It waits for the end of the session that was lost, for a
// second at most.
func (r *recorder) relock(
	ctx context.Context, pg *pgconn.PgConn, head *Held, lost []uint32, counted bool,
) (own uint32, err error) {
	queue, group := []byte(head.Queue), []byte(head.GroupID)
	xids := array.Of(lost, array.Int)
	bound := []byte(millis(r.bounds.ServerSilence))
	for until := time.Now().Add(tuning.Wait); ; {
		var batch pgconn.Batch
		sql, ending, args := statement("relock"), endingSQL, [][]byte{queue, group, bound, xids}
		if head.GroupSlot {
			sql, ending, args = statement("relock_group_slot"), endingGroupSlotSQL, append(args, appendInt(head.ID))
		}
		batch.ExecParams(r.schema.Qualify(sql), args, nil, nil, nil)
		if counted && !head.GroupSlot { // whose job is locked by then
			batch.ExecParams(r.schema.Qualify(relockHeadSQL), head.args(), nil, nil, nil)
		}
		results, err := pg.ExecBatch(ctx, &batch).ReadAll()
		if err != nil {
			return 0, err
		}
		if rows := results[0].Rows; len(rows) == 1 {
			xid, err := strconv.ParseInt(string(rows[0][0]), 10, 64)
			return uint32(xid), err
		}
		found, err := r.record(ctx, pg, r.schema.Qualify(ending), append([][]byte{queue, group, xids}, args[4:]...))
		if err != nil || !found || time.Now().After(until) {
			return 0, err
		}
		if err := pause.For(ctx, tuning.Rest); err != nil {
			return 0, err
		}
	}
}

// record runs one statement, and reports whether it found one row.
func (r *recorder) record(ctx context.Context, pg *pgconn.PgConn, sql string, args [][]byte) (bool, error) {
	tag, err := pg.ExecParams(ctx, sql, args, nil, nil, nil).Close()
	return tag.RowsAffected() == 1, err
}
