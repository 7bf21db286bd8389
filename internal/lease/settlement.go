package lease

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// A settlement is that of one job whose handler had no transaction. All that wait are made together: those of jobs that
// are done, and need nothing else, by one statement (sql/keep_done.sql); those of jobs that have failed, or were lost,
// by a call each in one transaction.
type settlement struct {
	head  *Held
	call  *Call // nil: it is done
	lost  bool  // it has a mark that goes with it
	err   error
	ready chan struct{}
}

// errApart says that a settlement is to be made by itself: the server has refused something of those that were to be
// made together.
var errApart = errors.New("lease: the jobs cannot be settled together")

// settle makes a settlement together with others. It returns ErrNotHeld if the job's group is not the claim's any more.
func (k *Keeper) settle(s *settlement) error {
	s.ready = make(chan struct{})
	k.mu.Lock()
	k.waiting = append(k.waiting, s)
	first := !k.settling
	k.settling = true
	k.mu.Unlock()
	if first {
		go k.settleAll()
	}
	<-s.ready
	return s.err
}

// settleAll makes settlements until none waits.
func (k *Keeper) settleAll() {
	for {
		k.mu.Lock()
		some := k.waiting[:min(len(k.waiting), askRoom)]
		k.waiting = k.waiting[len(some):]
		k.settling = len(some) > 0
		k.mu.Unlock()
		if len(some) == 0 {
			return
		}
		done, others := partition(some)
		var both sync.WaitGroup
		both.Go(func() { k.settleTogether(others, (*Lane).callEach) })
		k.settleTogether(done, (*Lane).completeAll)
		both.Wait()
	}
}

// partition returns the settlements of jobs that are done, and the others.
func partition(all []*settlement) (done, others []*settlement) {
	for _, s := range all {
		if s.call == nil {
			done = append(done, s)
		} else {
			others = append(others, s)
		}
	}
	return done, others
}

// settleTogether makes settlements in one transaction of a lane's, and tells who waits for them.
func (k *Keeper) settleTogether(some []*settlement, by func(*Lane, context.Context, []*settlement) error) {
	if len(some) == 0 {
		return
	}
	if err := k.onLane(some, by); err != nil {
		for _, s := range some {
			s.err = err
		}
	}
	for _, s := range some {
		close(s.ready)
	}
}

func (k *Keeper) onLane(some []*settlement, by func(*Lane, context.Context, []*settlement) error) error {
	ctx, cancel := context.WithTimeout(ownContext, k.Dialer.Bounds.WithDefaults().Silence)
	defer cancel()
	lane, err := k.Ends.get(ctx)
	if err != nil {
		return errApart // nothing was sent
	}
	defer k.Ends.put(lane)
	err = by(lane, ctx, some)
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

// completeAll completes jobs that are done.
func (l *Lane) completeAll(ctx context.Context, some []*settlement) error {
	return l.together(ctx, some, func(pipeline *pgconn.Pipeline, queues, ids, tokens, jobs []byte) {
		l.send(pipeline, stmtDone, [][]byte{queues, ids, tokens, jobs}, claimFormats)
		l.send(pipeline, stmtCommit, nil, nil)
	}, func(pipeline *pgconn.Pipeline) error { return readTags(pipeline, 1) })
}

// callEach makes the calls. It makes none of a job whose group is not the claim's any more, so it waits for the answer
// to the locks.
func (l *Lane) callEach(ctx context.Context, some []*settlement) error {
	return l.together(ctx, some, func(pipeline *pgconn.Pipeline, queues, ids, tokens, _ []byte) {
		l.send(pipeline, stmtTake, [][]byte{queues, ids, tokens}, claimFormats)
	}, func(pipeline *pgconn.Pipeline) error {
		if err := readSync(pipeline); err != nil {
			return err
		}
		return l.callHeld(pipeline, some)
	})
}

// together begins a transaction with a statement that tells which groups are the claims' still, and goes on from there.
// It waits for what somebody has locked, and for a trigger of the user's, a second for each statement.
func (l *Lane) together(
	ctx context.Context, some []*settlement,
	send func(pipeline *pgconn.Pipeline, queues, ids, tokens, jobs []byte), goOn func(*pgconn.Pipeline) error,
) error {
	var queues, ids, tokens, jobs array
	for _, s := range some {
		queues.string(s.head.Queue)
		ids.string(s.head.GroupID)
		tokens.int(s.head.token)
		jobs.int(s.head.ID)
		s.err = ErrNotHeld // until a row says that it is held
	}
	pipeline := l.pg().StartPipeline(ctx)
	begun := l.begin(pipeline)
	l.send(pipeline, stmtBound, nil, nil)
	send(pipeline, queues.bytes(), ids.bytes(), tokens.bytes(), jobs.bytes())
	err := pipeline.Sync()
	if err == nil {
		err = readTags(pipeline, begun+1)
	}
	if err == nil {
		err = eachNth(pipeline, len(some), func(_ *rowReader, n int) { some[n].err = nil })
	}
	if err == nil {
		err = goOn(pipeline)
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	return err
}

// callHeld makes the calls of what is held, lets the groups go, and commits.
func (l *Lane) callHeld(pipeline *pgconn.Pipeline, some []*settlement) error {
	var held []*settlement
	var heads, lost []*Held
	var settled []int64
	for _, s := range some {
		if s.err != nil {
			continue
		}
		l.send(pipeline, s.call.Statement, s.call.Args, nil)
		held, heads, settled = append(held, s), append(heads, s.head), append(settled, s.call.settles())
		if s.lost {
			lost = append(lost, s.head)
		}
	}
	ends := 1 // COMMIT
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
	for _, s := range held {
		tag, err := readTag(pipeline)
		if err != nil {
			return err
		}
		if tag.RowsAffected() != 1 {
			s.err = errNoRow
		}
	}
	return readTags(pipeline, ends)
}
