package lease

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// Jobs whose handlers had no transaction are settled together: all that wait. Those that are done, and need nothing
// else, by one statement (sql/keep_done.sql); those that have failed, or were lost, each by its own in one transaction.

// A finish is the settling of one job.
type finish struct {
	head  *Held
	call  *Call // nil: it is done
	lost  bool  // it has a mark that goes with it
	err   error
	ready chan struct{}
}

// errApart says that a job is to be settled by itself: the server has refused something of those that were to be
// settled together.
var errApart = errors.New("lease: the jobs cannot be settled together")

// finish settles a job. It returns ErrNotHeld if its group is not the claim's any more.
func (k *Keeper) finish(f *finish) error {
	f.ready = make(chan struct{})
	k.mu.Lock()
	k.waiting = append(k.waiting, f)
	first := !k.finishing
	k.finishing = true
	k.mu.Unlock()
	if first {
		go k.finishAll()
	}
	<-f.ready
	return f.err
}

// finishAll settles jobs until none waits.
func (k *Keeper) finishAll() {
	for {
		k.mu.Lock()
		some := k.waiting[:min(len(k.waiting), askRoom)]
		k.waiting = k.waiting[len(some):]
		k.finishing = len(some) > 0
		k.mu.Unlock()
		if len(some) == 0 {
			return
		}
		done, others := partition(some)
		var both sync.WaitGroup
		both.Go(func() { k.finishSome(others, (*Lane).finishEach) })
		k.finishSome(done, (*Lane).finish)
		both.Wait()
	}
}

// partition returns the jobs that are done, and the others.
func partition(all []*finish) (done, others []*finish) {
	for _, f := range all {
		if f.call == nil {
			done = append(done, f)
		} else {
			others = append(others, f)
		}
	}
	return done, others
}

// finishSome settles jobs by a transaction of a lane's, and tells who waits for them.
func (k *Keeper) finishSome(some []*finish, settle func(*Lane, context.Context, []*finish) error) {
	if len(some) == 0 {
		return
	}
	if err := k.finishWith(some, settle); err != nil {
		for _, f := range some {
			f.err = err
		}
	}
	for _, f := range some {
		close(f.ready)
	}
}

func (k *Keeper) finishWith(some []*finish, settle func(*Lane, context.Context, []*finish) error) error {
	ctx, cancel := context.WithTimeout(ownContext, k.Dialer.Session.WithDefaults().Silence)
	defer cancel()
	lane, err := k.Ends.get(ctx)
	if err != nil {
		return errApart // nothing was sent
	}
	defer k.Ends.put(lane)
	err = settle(lane, ctx, some)
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

// finish completes jobs in a transaction of the lane's. It waits for what somebody has locked, and for a trigger of the
// user's, a second for each statement.
func (l *Lane) finish(ctx context.Context, some []*finish) error {
	queues, ids, tokens, jobs := keepArgs(some)
	pipeline := l.pg().StartPipeline(ctx)
	begun := l.begin(pipeline)
	l.send(pipeline, stmtBound, nil, nil)
	l.send(pipeline, stmtDone, [][]byte{queues, ids, tokens, jobs}, claimFormats)
	l.send(pipeline, stmtCommit, nil, nil)
	err := pipeline.Sync()
	if err == nil {
		err = readTags(pipeline, begun+1)
	}
	if err == nil {
		err = readFinish(pipeline, some)
	}
	if err == nil {
		_, err = readTag(pipeline) // COMMIT
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	return err
}

// finishEach makes the call of each job in one transaction of the lane's. It makes none of a job whose group is not the
// claim's any more, so it waits for the answer to the locks.
func (l *Lane) finishEach(ctx context.Context, some []*finish) error {
	queues, ids, tokens, _ := keepArgs(some)
	pipeline := l.pg().StartPipeline(ctx)
	begun := l.begin(pipeline)
	l.send(pipeline, stmtBound, nil, nil)
	l.send(pipeline, stmtTake, [][]byte{queues, ids, tokens}, claimFormats)
	err := pipeline.Sync()
	if err == nil {
		err = readTags(pipeline, begun+1)
	}
	if err == nil {
		err = readFinish(pipeline, some)
	}
	if err == nil {
		err = readSync(pipeline)
	}
	if err == nil {
		err = l.finishHeld(pipeline, some)
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (l *Lane) finishHeld(pipeline *pgconn.Pipeline, some []*finish) error {
	var held []*finish
	var heads, lost []*Held
	var settled []int64
	for _, f := range some {
		if f.err != nil {
			continue
		}
		l.send(pipeline, f.call.Statement, f.call.Args, nil)
		held, heads = append(held, f), append(heads, f.head)
		settled = append(settled, settledBy(heads[len(heads)-1:], []Call{*f.call})...)
		if f.lost {
			lost = append(lost, f.head)
		}
	}
	ends := 0
	if len(lost) > 0 {
		l.send(pipeline, stmtUnmark, unmarkArgs(lost), nil)
		ends++
	}
	if len(heads) > 0 {
		end := endCall(heads, settled)
		l.send(pipeline, end.Statement, end.Args, nil)
		ends++
	}
	l.send(pipeline, stmtCommit, nil, nil)
	if err := pipeline.Sync(); err != nil {
		return err
	}
	for _, f := range held {
		tag, err := readTag(pipeline)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			f.err = errNoRow
		}
	}
	return readTags(pipeline, ends+1)
}

// keepArgs returns what the statements that find the groups of a session take. None is found yet.
func keepArgs(some []*finish) (_, _, _, _ []byte) {
	var queues, ids, tokens, jobs array
	for _, f := range some {
		queues.string(f.head.Queue)
		ids.string(f.head.GroupID)
		tokens.int(f.head.token)
		jobs.int(f.head.ID)
		f.err = ErrNotHeld
	}
	return queues.bytes(), ids.bytes(), tokens.bytes(), jobs.bytes()
}

func readTags(pipeline *pgconn.Pipeline, n int) error {
	for range n {
		if _, err := readTag(pipeline); err != nil {
			return err
		}
	}
	return nil
}

// readFinish reads which groups were the claims'.
func readFinish(pipeline *pgconn.Pipeline, some []*finish) error {
	return eachRow(pipeline, func(r *rowReader) {
		n := int(r.uint32()) - 1
		if len(r.values) > 1 {
			r.column(4, true) // all_done of keep_done.sql: NULL
		}
		if n < 0 || n >= len(some) {
			r.fail("for job %d of %d", n+1, len(some))
			return
		}
		some[n].err = nil
	})
}
