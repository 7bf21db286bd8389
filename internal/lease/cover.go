package lease

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// headSQL finds the head of a group, and who has locked its row last: $1 queue, $2 group id.
const headSQL = "SELECT id, attempts, xmax FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 " +
	"ORDER BY queue, group_id, id LIMIT 1"

// cover is called when a claim has come to nothing because the server has refused it, or what is asked after it.
func (l *Lane) cover(ctx context.Context, err error) {
	if Refused(err) {
		l.coverAll(ctx)
	}
}

// coverAll makes sure that the last claim, whose transaction has ended, neither looks like a crash nor hides one. Each
// group that it had locked is locked again, and that is committed. A death before the claim is looked for, and its
// attempt is marked: whoever claims the job next counts it.
//
// A group that somebody holds by now, or has died with, is left to him. The lane's own session does this, or one of the
// Control pool if the lane's is gone, or as a handler has left it. Each try ends after Silence. If no connection of the
// pool is free within a second, the rest stay as they are: what the lane has settled is told only after this.
func (l *Lane) coverAll(ctx context.Context) {
	if l.control == nil {
		return
	}
	for i := range l.claims.locked {
		if !l.coverSoon(ctx, &l.claims.locked[i]) {
			return
		}
	}
}

// coverSoon covers a group, and reports whether there was a connection to do so.
func (l *Lane) coverSoon(ctx context.Context, one *Held) bool {
	lost := []uint32{l.claims.own} // and what has tried to cover it
	type work = func(*pgconn.PgConn) error
	try := func(on func(context.Context, work) error) error {
		ctx, cancel := context.WithTimeout(ctx, l.bounds.Silence)
		defer cancel()
		return on(ctx, func(pg *pgconn.PgConn) error {
			own, err := l.coverOne(ctx, pg, one, lost)
			if own != 0 {
				lost = append(lost, own)
			}
			return err
		})
	}
	if !l.Closed() {
		if try(func(ctx context.Context, f work) error { return commits(ctx, l.pg(), f) }) == nil {
			return true
		}
		_ = l.conn.Close()
	}
	waits, end := context.WithTimeout(ctx, tuning.Wait)
	defer end()
	for range 2 { // the pool's session may have ended: another one
		err := try(func(ctx context.Context, f work) error { return l.transaction(ctx, waits, f) })
		if err == nil || Refused(err) {
			return true
		}
	}
	return false
}

// coverOne covers a group, and returns the id of its transaction if it got the group. lost are the ids of the claim and
// of earlier tries.
func (l *Lane) coverOne(ctx context.Context, pg *pgconn.PgConn, one *Held, lost []uint32) (own uint32, err error) {
	head := *one
	own, err = l.relock(ctx, pg, &head, lost, false)
	if own == 0 {
		return 0, err
	}
	if head.ID == 0 { // if the claim has locked the head all the same, no earlier death can be seen any more
		if err := l.look(ctx, pg, &head); err != nil {
			return own, err
		}
	}
	if head.marked || !head.perhapsLost() {
		return own, nil
	}
	xids := [][]byte{appendInt(int64(head.jobXID)), appendInt(int64(head.groupXID))}
	answer := pg.ExecParams(ctx, statement("evidence"), xids, nil, nil, nil).Read()
	if answer.Err == nil && len(answer.Rows) > 0 && string(answer.Rows[0][0]) == "t" {
		_, answer.Err = l.record(ctx, pg, l.stmts[stmtCharge].SQL, head.args())
	}
	return own, answer.Err
}

// look finds the head of a group, if it has one.
func (l *Lane) look(ctx context.Context, pg *pgconn.PgConn, head *Held) error {
	key := [][]byte{[]byte(head.Queue), []byte(head.GroupID)}
	answer := pg.ExecParams(ctx, l.schema.Qualify(headSQL), key, nil, nil, binaryRows).Read()
	if answer.Err != nil || len(answer.Rows) == 0 {
		return answer.Err
	}
	r := rowReader{values: answer.Rows[0]}
	head.ID, head.Attempts, head.jobXID = r.int64(), int(int32(r.uint32())), r.uint32()
	return r.end()
}
