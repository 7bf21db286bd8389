package lease

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Jobs behind the head of a batch are not locked, so somebody may keep one of them open when they are settled: with an
// edit, say, that is not committed. He is waited for a second. Then another session ends the statement that waits, and
// the batch is given back. A lock_timeout in each batch's transaction would cost a fifth of what the batch does.

// A waitBound bounds how long a step waits for who keeps a job open. A nil one bounds nothing: most steps have no need.
//
// Without a Control pool, or while all of that is in use, or if its login is not the lane's, the lane goes on waiting.
// A lock on the whole table, of CREATE INDEX say, is waited for in any case, for as long as it takes.
type waitBound struct {
	lane  *Lane
	xid   int64
	texts []string // of the statements that may wait

	timer *time.Timer
	stop  context.CancelFunc
	done  chan struct{}

	ended bool // a statement of the step was cancelled, or none, but nothing behind the step will be
	stray bool // nobody knows whether something was cancelled: what comes behind the step may be
}

// boundWait bounds the wait of a step that is about to be sent. Call end when the step has been answered.
func (l *Lane) boundWait(ctx context.Context, calls []Call) *waitBound {
	var texts []string
	for _, c := range calls {
		if c.Behind {
			texts = append(texts, l.stmts[c.Statement].SQL)
		}
	}
	if len(texts) == 0 || l.control == nil {
		return nil
	}
	b := &waitBound{lane: l, xid: l.hold.Seen.XID, texts: texts, done: make(chan struct{})}
	ctx, b.stop = context.WithCancel(ctx)
	b.timer = time.AfterFunc(tuning.Wait, func() {
		defer close(b.done)
		for n := 1; ; n++ {
			b.look(ctx)
			if b.ended || pause.For(ctx, rest.Nth(n, tuning.Slow, tuning.Wait)) != nil {
				return
			}
		}
	})
	return b
}

// end returns what has become of the step's statements, when nothing more is asked or sent.
func (b *waitBound) end() (ended, stray bool) {
	if b == nil {
		return false, false
	}
	b.stop()
	if !b.timer.Stop() {
		<-b.done
	}
	return b.ended, b.stray
}

// look ends the statement that waits, if it has done so for long enough. ctx ends with the step. But what has been sent
// by then is waited for: when that is answered, no cancel is on its way.
func (b *waitBound) look(ctx context.Context) {
	conn, err := b.lane.control.Acquire(ctx)
	if err != nil {
		return
	}
	defer conn.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.lane.bounds.Silence)
	defer cancel()
	var batch pgx.Batch
	batch.Queue(beginSQL)
	batch.Queue("SET LOCAL ROLE NONE")
	batch.Queue(statement("end_wait"), b.xid, b.texts).QueryRow(func(row pgx.Row) error { return row.Scan(&b.ended) })
	batch.Queue(commitSQL)
	err = conn.SendBatch(ctx, &batch).Close()
	b.stray = b.stray || err != nil && !Refused(err)
}
