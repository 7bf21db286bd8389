package lease

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Jobs that are done, and whose handlers had no transaction, are completed together: all that wait, in one transaction
// (sql/keep_done.sql).

// A finish is the completion of one job.
type finish struct {
	head *Held
	err  error
	done chan struct{}
}

// errApart says that a job is to be completed by itself: the server has refused something of those that were to be
// completed together.
var errApart = errors.New("lease: the jobs cannot be completed together")

// finish completes a job. It returns ErrNotHeld if its group is not the claim's any more.
func (k *Keeper) finish(head *Held) error {
	f := &finish{head: head, done: make(chan struct{})}
	k.mu.Lock()
	k.done = append(k.done, f)
	first := !k.finishing
	k.finishing = true
	k.mu.Unlock()
	if first {
		go k.finishAll()
	}
	<-f.done
	return f.err
}

// finishAll completes jobs until none waits.
func (k *Keeper) finishAll() {
	for {
		k.mu.Lock()
		some := k.done[:min(len(k.done), askRoom)]
		k.done = k.done[len(some):]
		k.finishing = len(some) > 0
		k.mu.Unlock()
		if len(some) == 0 {
			return
		}
		if err := k.finishSome(some); err != nil {
			for _, f := range some {
				f.err = err
			}
		}
		for _, f := range some {
			close(f.done)
		}
	}
}

func (k *Keeper) finishSome(some []*finish) error {
	ctx, cancel := context.WithTimeout(ownContext, k.Dialer.Session.WithDefaults().Silence)
	defer cancel()
	lane, err := k.Ends.get(ctx)
	if err != nil {
		return errApart // nothing was sent
	}
	defer k.Ends.put(lane)
	err = lane.finish(ctx, some)
	if err == nil {
		return nil
	}
	lane.rollback(ctx)
	if Refused(err) {
		return errApart
	}
	_ = lane.Close()
	return err
}

// finish completes jobs in a transaction of the lane's. Who has one of them locked is waited for, a second at most.
func (l *Lane) finish(ctx context.Context, some []*finish) error {
	var queues, ids, tokens, jobs array
	for _, f := range some {
		queues.string(f.head.Queue)
		ids.string(f.head.GroupID)
		tokens.int(f.head.token)
		jobs.int(f.head.ID)
		f.err = ErrNotHeld // until a row says that it was the claim's
	}
	pipeline := l.pg().StartPipeline(ctx)
	begun := l.begin(pipeline)
	l.send(pipeline, stmtWaitBehind, nil, nil)
	args := [][]byte{queues.bytes(), ids.bytes(), tokens.bytes(), jobs.bytes()}
	l.send(pipeline, stmtDone, args, claimFormats)
	l.send(pipeline, stmtCommit, nil, nil)
	err := pipeline.Sync()
	if err == nil {
		err = readFinish(pipeline, begun, some)
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	return err
}

func readFinish(pipeline *pgconn.Pipeline, begun int, some []*finish) error {
	for range begun + 1 { // and the bound
		if _, err := readTag(pipeline); err != nil {
			return err
		}
	}
	err := eachRow(pipeline, func(r *rowReader) {
		n := int(r.uint32()) - 1
		r.column(4, true)
		if n < 0 || n >= len(some) {
			r.fail("for job %d of %d", n+1, len(some))
			return
		}
		some[n].err = nil
	})
	if err == nil {
		_, err = readTag(pipeline) // COMMIT
	}
	return err
}
