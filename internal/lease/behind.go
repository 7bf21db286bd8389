package lease

import (
	"context"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Jobs behind the head of a batch are not locked, so somebody may keep one of them open when they are settled: with an
// edit, say, that is not committed. He is waited for a second. Then another session ends the statement that waits, and
// the batch is given back. A lock_timeout in each batch's transaction would cost a fifth of what the batch does.

// watchBehind watches the step that is about to be sent, and ends its wait for who keeps a job open behind the head of
// a batch. Call answered when the step has been answered.
//
// Without a Control pool, or while all of that is in use, the lane goes on waiting. A lock on the whole table, of
// CREATE INDEX say, is waited for in any case, for as long as it takes.
func (l *Lane) watchBehind(ctx context.Context, calls []Call) (answered func()) {
	var texts []string
	for _, c := range calls {
		if c.Behind {
			texts = append(texts, l.stmts[c.Statement].SQL)
		}
	}
	if len(texts) == 0 || l.control == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	xid, done := l.hold.Seen.XID, make(chan struct{})
	timer := time.AfterFunc(tuning.Wait, func() {
		defer close(done)
		for !l.endWait(ctx, xid, texts) && pause.For(ctx, tuning.Wait) == nil {
		}
	})
	return func() {
		cancel()
		if !timer.Stop() {
			<-done
		}
	}
}

// endWait reports whether a statement of the lane's was cancelled, or may yet be.
func (l *Lane) endWait(ctx context.Context, xid int64, texts []string) bool {
	conn, err := l.control.Acquire(ctx)
	if err != nil {
		return false
	}
	defer conn.Release()
	ended := false
	err = conn.QueryRow(ctx, statement("end_wait"), xid, texts).Scan(&ended)
	if ended = ended || err != nil; ended {
		l.stream.cancelledLate()
	}
	return ended
}
