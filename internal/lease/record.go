package lease

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/array"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

const (
	// unchangedSQL finds a job that is as it was claimed: $1 queue, $2 group id, $3 id, $4 attempts.
	unchangedSQL = "SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4"
	// relockHeadSQL locks it, if its group is locked. Another one stays as it is: its lock, and the end of this
	// transaction, would be evidence of a crash.
	relockHeadSQL = unchangedSQL + " AND pg_current_xact_id_if_assigned() IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED"
	// endingSQL finds a group whose row is the lost transaction's yet: $1 queue, $2 group id, $3 as relock.sql's $4.
	endingSQL = "SELECT FROM pgfifo.queue_groups WHERE queue = $1 AND group_id = $2 " +
		"AND ($3::text[] IS NULL OR xmax::text = ANY ($3::text[]))"
	// unboundSQL undoes what boundBy does, for the statements behind the calls.
	unboundSQL = "SET LOCAL statement_timeout TO DEFAULT"
	// endingGroupSlotSQL finds a job whose row is the lost transaction's yet: $4 id.
	endingGroupSlotSQL = "SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 " +
		"AND xmax::text = ANY ($3::text[]) AND id = $4"
)

// A recorder settles on other connections what a lane cannot settle any more.
type recorder struct {
	on      *link // the lane's
	schema  schema.Name
	stmts   statements
	refused refusedRecord
}

// A refusedRecord is the last Record that the server has refused: its transaction has locked the group since the claim.
type refusedRecord struct {
	groups.Key
	claim int64  // the claim's transaction
	own   uint32 // 0: not known
}

var errUnchanged = errors.New("lease: the server has left the row as it was: a trigger?")

// Record settles a held head on the Control pool, when the transaction that claimed it is lost while its worker lives:
// it was ended by the handler, or its commit was refused. Nil for calls gives the job back. In both cases the lost
// transaction is no evidence of a crash afterwards. The parameters of a call begin with the job's queue, group id, id
// and attempts.
//
// A head without Seen is of a claim whose transaction is not known.
//
// It returns ErrNotHeld if another worker has the group, or has died with it, or if a call finds the job otherwise than
// it was claimed: then another worker counts the attempt. Any other error is the database's; then nothing is recorded,
// or, if the connection broke, it is not known.
func (r *recorder) Record(ctx context.Context, head *Held, calls ...Call) error {
	if r.on.control == nil {
		return ErrNoControl
	}
	if head.GroupSlot && head.Seen.XID == 0 { // nothing tells of a claim that failed
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.on.bounds.Silence)
	defer cancel()
	lost := r.ended(head)
	own, err := r.recordOnce(ctx, head, lost, calls)
	if err != nil && !Refused(err) && ctx.Err() == nil { // the pool's session had ended: another one
		if lost != nil && own != 0 {
			lost = append(lost, own)
		}
		own, err = r.recordOnce(ctx, head, lost, calls)
	}
	if err != nil {
		if Refused(err) && !errors.Is(err, ErrNotHeld) {
			r.refused = refusedRecord{head.Key, head.Seen.XID, own}
		}
		return fmt.Errorf("lease: record: %w", err)
	}
	return nil
}

// ended returns the transactions of an attempt that have ended, or nil if the last of them is not known.
func (r *recorder) ended(head *Held) []uint32 {
	if head.Seen.XID == 0 {
		return nil
	}
	ended := []uint32{uint32(head.Seen.XID)}
	switch of := r.refused; {
	case of.Key != head.Key || of.claim != head.Seen.XID: // no Record of this attempt was refused
		return ended
	case of.own != 0:
		return append(ended, of.own)
	case head.GroupSlot:
		return ended
	}
	return nil
}

// Charge leaves an attempt to whoever claims its job next: it is counted as lost then. Use it if Record was refused, or
// for a death that was found. Its errors are Record's. The job may be behind the head, where somebody may keep it open.
func (r *recorder) Charge(ctx context.Context, head *Held, id int64, attempts int) error {
	if head.GroupSlot { // its mark is there; the attempt does not count if the handler has committed the claim itself
		return nil
	}
	return r.Record(ctx, head, chargeCall(head, id, attempts))
}

func chargeCall(head *Held, id int64, attempts int) Call {
	args := [][]byte{[]byte(head.Queue), []byte(head.GroupID), appendInt(id), appendInt(int64(attempts))}
	return Call{Statement: stmtCharge, Args: args}
}

// charges reports whether a call leaves the attempt of the head to whoever claims that next.
func (c *Call) charges(head *Held) bool {
	return c.Statement == stmtCharge && bytes.Equal(c.Args[2], appendInt(head.ID))
}

// recordOnce returns its transaction, too, if it got as far as having one. lost are those that have ended.
func (r *recorder) recordOnce(ctx context.Context, head *Held, lost []uint32, calls []Call) (own uint32, err error) {
	conn, err := r.on.control.Acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Release() // closes it if a transaction is open
	pg := conn.Conn().PgConn()
	if _, err := pg.Exec(ctx, beginSQL).ReadAll(); err != nil {
		return 0, err
	}
	own, err = r.relock(ctx, pg, head, lost, len(calls) > 0)
	held := own != 0
	if err == nil && held && len(calls) > 0 {
		held, err = r.recordCalls(ctx, pg, calls)
	}
	if err == nil && held && (len(calls) == 0 || !calls[0].charges(head)) {
		_, err = r.record(ctx, pg, r.stmts[stmtUnmark].SQL, unmarkArgs([]*Held{head}))
	}
	if err == nil { // also of nothing, which is no evidence then
		_, err = pg.Exec(ctx, commitSQL).ReadAll()
	}
	if err == nil && !held {
		err = ErrNotHeld
	}
	return own, err
}

// recordCalls makes the calls, and reports whether each has found its job. A job behind the head is not locked, so
// somebody may keep it open. The rollback of this transaction is evidence against the head until Charge has committed.
// So the server ends a call when half of the time that is left is over, and does not leave it to ctx.
func (r *recorder) recordCalls(ctx context.Context, pg *pgconn.PgConn, calls []Call) (found bool, err error) {
	deadline, _ := ctx.Deadline()
	found, err = r.record(ctx, pg, boundSQL[stmtBoundBy], boundBy(time.Until(deadline)/2).Args)
	for i := 0; err == nil && found && i < len(calls); i++ {
		found, err = r.record(ctx, pg, r.stmts[calls[i].Statement].SQL, calls[i].Args)
		if unchanged := false; err == nil && !found {
			if unchanged, err = r.record(ctx, pg, r.schema.Qualify(unchangedSQL), calls[i].Args[:4]); unchanged {
				err = errUnchanged
			}
		}
	}
	if err == nil {
		_, err = pg.Exec(ctx, unboundSQL).ReadAll()
	}
	return found, err
}

// relock locks the group's row and returns its transaction, or 0 if somebody else has the group, or has died with it.
// If an attempt is to be counted, it locks the head's row, too, as a claim does, and both are sent at once: if the
// worker dies now, it is this transaction that tells of that.
func (r *recorder) relock(
	ctx context.Context, pg *pgconn.PgConn, head *Held, lost []uint32, counted bool,
) (own uint32, err error) {
	queue, group := []byte(head.Queue), []byte(head.GroupID)
	xids := array.Of(lost, array.Int) // NULL: not known
	bound := []byte(millis(r.on.bounds.ServerSilence))
	for until := time.Now().Add(tuning.Wait); ; { // the session that was lost may be about to end
		var batch pgconn.Batch
		sql, ending, args := statement("relock"), endingSQL, [][]byte{queue, group, bound, xids}
		if head.GroupSlot {
			sql, ending, args = statement("relock_group_slot"), endingGroupSlotSQL, append(args, appendInt(head.ID))
		}
		batch.ExecParams(r.schema.Qualify(sql), args, nil, nil, nil)
		if counted && !head.GroupSlot { // whose job is locked by then
			args := [][]byte{queue, group, appendInt(head.ID), appendInt(int64(head.Attempts))}
			batch.ExecParams(r.schema.Qualify(relockHeadSQL), args, nil, nil, nil)
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
