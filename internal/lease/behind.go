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
// edit, say, that is not committed. The step waits a second for him. Then another session ends its statement, and the
// batch is given back. A lock_timeout in each batch's transaction would cost a fifth of what the batch does.

// A waitBound bounds how long a step waits for whoever keeps a job open. A nil one bounds nothing: most need none.
//
// Without a Control pool, or while all of that is in use, or if its login is not the lane's, the lane goes on waiting.
// A lock on the whole table, of CREATE INDEX say, is waited for in any case, for as long as it takes.
type waitBound struct {
	lane  *Lane
	xid   int64
	texts []string // of the statements that may wait

	timer *time.Timer
	stop  context.CancelFunc
	done  chan cancelled // has room for one
}

// cancelled says whether a look has cancelled a statement of the step.
type cancelled struct {
	ended bool // a cancel was sent and has arrived; nothing after this step can meet it
	stray bool // a cancel may still arrive, after this step
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
	b := &waitBound{lane: l, xid: l.hold.Seen.XID, texts: texts, done: make(chan cancelled, 1)}
	ctx, b.stop = context.WithCancel(ctx)
	b.timer = time.AfterFunc(tuning.Wait, func() {
		var c cancelled
		for n := 1; ; n++ {
			b.look(ctx, &c)
			if c.ended || pause.For(ctx, rest.Nth(n, tuning.Slow, tuning.Wait)) != nil {
				break
			}
		}
		b.done <- c
	})
	return b
}

// end returns what has become of the step's statements. It waits 50 ms for a look that is under way, and no longer: the
// lane holds its next claim by now. If the look has not ended by then, the result is stray.
func (b *waitBound) end() cancelled {
	if b == nil {
		return cancelled{}
	}
	b.stop()
	if b.timer.Stop() {
		return cancelled{}
	}
	select {
	case c := <-b.done:
		return c
	case <-time.After(tuning.Look):
		return cancelled{stray: true}
	}
}

// look ends the statement that waits, if it has waited for long enough. ctx ends with the step. A look that was sent
// waits for its answer even if the step has ended, Silence at most. With the answer, no cancel is on its way.
func (b *waitBound) look(ctx context.Context, c *cancelled) {
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
	batch.Queue(statement("end_wait"), b.xid, b.texts, b.lane.schema.String()).QueryRow(func(row pgx.Row) error {
		return row.Scan(&c.ended)
	})
	batch.Queue(commitSQL)
	err = conn.SendBatch(ctx, &batch).Close()
	c.stray = c.stray || err != nil && !Refused(err)
}
