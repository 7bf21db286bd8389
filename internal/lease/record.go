package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// relockWait is how long Record waits for the group's row. The session that held it may take a moment to end.
const relockWait = time.Second

const (
	// relockHeadSQL locks a job that is as it was claimed, if its group is locked: $1 queue, $2 group id, $3 id,
	// $4 attempts. Another one stays as it is: its lock, and the end of this transaction, would be evidence of a crash.
	relockHeadSQL = "SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4 " +
		"AND pg_current_xact_id_if_assigned() IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED"
	// unchangedSQL finds a job that is as it was claimed: $1 queue, $2 group id, $3 id, $4 attempts.
	unchangedSQL = "SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3 AND attempts = $4"
)

var errUnchanged = errors.New("lease: the server has left the job as it was: a trigger?")

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
func (l *Lane) Record(ctx context.Context, head *Held, calls ...Call) error {
	if l.control == nil {
		return ErrNoControl
	}
	ctx, cancel := context.WithTimeout(ctx, l.silent)
	defer cancel()
	err := l.recordOnce(ctx, head, calls)
	if err != nil && !Refused(err) && ctx.Err() == nil { // the pool's session had ended: another one
		err = l.recordOnce(ctx, head, calls)
	}
	return err
}

func (l *Lane) recordOnce(ctx context.Context, head *Held, calls []Call) error {
	conn, err := l.control.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("lease: record: %w", err)
	}
	defer conn.Release() // closes it if a transaction is open
	pg := conn.Conn().PgConn()
	if _, err := pg.Exec(ctx, beginSQL).ReadAll(); err != nil {
		return fmt.Errorf("lease: record: %w", err)
	}
	held, err := l.relock(ctx, pg, head, len(calls) > 0)
	for i := 0; err == nil && held && i < len(calls); i++ {
		held, err = l.record(ctx, pg, l.texts[calls[i].Statement], calls[i].Args)
		if unchanged := false; err == nil && !held {
			if unchanged, err = l.record(ctx, pg, unchangedSQL, calls[i].Args[:4]); unchanged {
				err = errUnchanged
			}
		}
	}
	if err == nil && held {
		_, err = l.record(ctx, pg, unmarkSQL, unmarkArgs([]*Held{head}))
	}
	if err != nil {
		return fmt.Errorf("lease: record: %w", err)
	}
	end := commitSQL
	if !held {
		end = "ROLLBACK"
		err = ErrNotHeld
	}
	if _, endErr := pg.Exec(ctx, end).ReadAll(); endErr != nil {
		return fmt.Errorf("lease: record: %w", endErr)
	}
	return err
}

// relock locks the group's row, or reports that somebody else has it. If an attempt is to be counted, it locks the
// head's row, too, as a claim does, and both are sent at once: if the worker dies now, it is this transaction that
// tells of that.
func (l *Lane) relock(ctx context.Context, pg *pgconn.PgConn, head *Held, counted bool) (bool, error) {
	var batch pgconn.Batch
	queue, group := []byte(head.Queue), []byte(head.GroupID)
	wait, bound := appendInt(relockWait.Milliseconds()), appendInt(max(l.bound.Milliseconds(), 1))
	lost := []byte(nil)
	if head.Seen.XID > 0 {
		lost = appendInt(head.Seen.XID)
	}
	batch.ExecParams(l.schema.Qualify(relockSQL), [][]byte{queue, group, wait, bound, lost}, nil, nil, nil)
	if counted {
		args := [][]byte{queue, group, appendInt(head.ID), appendInt(int64(head.Attempts))}
		batch.ExecParams(l.schema.Qualify(relockHeadSQL), args, nil, nil, nil)
	}
	results, err := pg.ExecBatch(ctx, &batch).ReadAll()
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "55P03" {
		return false, nil // they have seen what was lost, and count it
	}
	return err == nil && results[0].CommandTag.RowsAffected() == 1, err
}

// record runs one statement, and reports whether it found one row.
func (l *Lane) record(ctx context.Context, pg *pgconn.PgConn, sql string, args [][]byte) (bool, error) {
	tag, err := pg.ExecParams(ctx, l.schema.Qualify(sql), args, nil, nil, nil).Close()
	return tag.RowsAffected() == 1, err
}
