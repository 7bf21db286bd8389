package torture

import (
	"context"
	"time"
)

// A worker of the queues whose groups a session holds has few lanes, and runs many more jobs at once.
const (
	keptLanes   = 2
	jobsPerLane = 4
)

// keepsAt reports whether the processes of a slot work these queues: half of them do, as each takes many connections.
func keepsAt(slot int) bool { return slot%2 == 0 }

// own returns the server process that a turn depends on, 0 if it may be any of its worker's: the session that holds its
// group, the lane that it has its transaction of, and that which completes it.
func (c *checker) own(t *turn) int64 {
	if mayKeep(t.queue) {
		return 0
	}
	return t.pid
}

// hit reports whether a session that was ended was that of a turn, or held its group.
func (c *checker) hit(m *mark, t *turn) bool {
	if m.note == noteHolds {
		return keeps(t.queue)
	}
	return t.pid == m.pid && t.pid != 0
}

// When the handler of a queue whose groups a session may hold asks for the job's transaction, which holds the group
// only from then on.
const (
	txLate  = "late"  // when all else is done
	txNever = "never" // the effect is that of a trigger, with the job's completion
)

// asks says when a handler with the task is to ask for the transaction, if not first of all.
func (t *task) asks(queue string) string {
	if !mayKeep(queue) {
		return ""
	}
	switch t.Do {
	case "", doFence, doSlow, doLate, doAway, doError, doPanic, doLater:
	default: // it needs it, or is not to be completed
		return ""
	}
	switch n := t.N % 3; {
	case n == 1:
		return txLate
	case n == 2 && queue != queueKeptEach: // that would be in another order than those of handlers beside it
		return txNever
	}
	return ""
}

// heedless reports whether a handler goes on as if nothing were wrong when its context has ended, asks for the
// transaction, and returns no error.
func (t *task) heedless() bool { return t.Tx != "" && t.N%2 == 0 }

// keptSQL tells whether the row of a group says that a session runs a job for the nth time.
const keptSQL = `SELECT count(*) FROM pgfifo.queue_groups
WHERE queue = $1 AND group_id = $2 AND session IS NOT NULL AND job = $3 AND attempt = $4`

// keptWithin is how long a handler waits for the answer.
const keptWithin = 500 * time.Millisecond

// kept looks, for some jobs of queues whose groups are a session's, whether others see that by the time when the
// handler begins. Of a batch the row tells of the head.
func (a *attempt) kept(ctx context.Context) {
	if q := a.job.Queue; !keeps(q) || q == queueKeptEach || a.N%4 != 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keptWithin)
	defer cancel()
	var n int64
	if a.pool.QueryRow(ctx, keptSQL, a.job.Queue, a.job.GroupID, a.job.ID, a.job.Attempt()).Scan(&n) == nil {
		a.note(evMark, 2*n-1, "-")
	}
}

// ending returns the context by which a handler asks for the transaction when all else is done.
func (a *attempt) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	if !a.heedless() {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), freeze)
}
