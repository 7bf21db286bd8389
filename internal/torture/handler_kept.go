package torture

import (
	"context"
	"time"
)

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
