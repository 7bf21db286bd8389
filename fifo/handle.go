package fifo

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/pgfifo/pgfifo/internal/array"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// handleEach runs the handler once for each of the jobs that are held, and decides what becomes of them.
func (s *seat) handleEach(stop, ctx context.Context, a *attempt, tasks []task) {
	h := s.queue.Handler // which is also called when the seat has gone on
	done := tasks[:0]    // those up to the present one have been read
	var stopped *place
	probed := false
	for i := range tasks {
		t, last := tasks[i], i == len(tasks)-1
		if t.place == stopped || i > 0 && (stop.Err() != nil || probed ||
			s.holder.Lane().Spoiled() || s.notToBegin(t)) {
			t.place.outcome.More = true
			continue
		}
		before := len(a.results)
		err, notHeld, cause := s.lend(ctx, tasks[i:i+1], func(ctx context.Context, jobs []*Job) error {
			return h(ctx, jobs[0])
		})
		last = last || s.holder.Lane().Spoiled()
		if err == nil && notHeld == nil && !last {
			notHeld = s.holder.KeepWrites(ctx)
		}
		switch {
		case errors.Is(notHeld, lease.ErrLost):
			a.add(result{job: t.job, place: t.place})
			a.revoke(Unknown, KindLost, errors.Join(notHeld, err))
			return
		case errors.Is(notHeld, lease.ErrUnsettled):
			a.add(result{job: t.job, place: t.place})
			a.revoke(Returned, KindError, notHeld)
			a.broken = true
			return
		case err == nil && notHeld == nil:
			a.add(result{job: t.job, place: t.place, outcome: Succeeded})
			t.place.outcome.Finished, t.place.outcome.More = t.job.ID, t.held.More
			done = append(done, t)
			probed = s.answered(a.results[before:])
			continue
		case err == nil:
			err = notHeld
		}
		stopped = t.place
		if undone := s.holder.Lane().Undo(ctx); undone != nil { // and so are those before it
			a.revoke(Returned, "", err)
			s.failed(a, t, err, cause)
			a.calls, a.broken = nil, true
			s.answered(a.results[before:])
			return
		}
		s.failed(a, t, err, cause)
		probed = s.answered(a.results[before:])
		if !last {
			_ = s.holder.KeepWrites(ctx) // if this fails, nothing is held, and so does the step
		}
	}
	s.succeed(a, done)
}

// failed adds the failure of a job whose handler has returned with an error.
func (s *seat) failed(a *attempt, t task, err, cause error) {
	if interrupted(cause) {
		a.add(result{job: t.job, place: t.place, outcome: Returned, failure: &failure{err: err}})
		t.place.outcome.More = true
		return
	}
	s.fail(a, t, newFailure(err, cause, s.queue.JobTimeout), s.delay(t.place, t.job, err))
}

// handleSlice runs the handler once for all of the jobs that are held, and decides what becomes of them.
func (s *seat) handleSlice(ctx context.Context, a *attempt, tasks []task) {
	err, notHeld, cause := s.lend(ctx, tasks, s.queue.BatchHandler)
	named, is := batchError(err)
	if is && len(named) == 0 { // no job has failed
		err = nil
	}
	switch {
	case errors.Is(notHeld, lease.ErrLost):
		s.giveBack(a, tasks)
		a.revoke(Unknown, KindLost, errors.Join(notHeld, err))
		return
	case notHeld == nil && (err == nil || names(named, tasks)):
		s.partly(a, tasks, named, cause)
		return
	case err == nil:
		err = notHeld
	}
	a.broken = s.holder.Lane().Undo(ctx) != nil
	if len(tasks) == 1 || uncounted(err) && !errors.As(err, new(BatchError)) {
		all := make(BatchError, len(tasks))
		for i := range tasks {
			all[tasks[i].job.ID] = err
		}
		s.partly(a, tasks, all, cause)
		if a.broken {
			a.calls = nil
		}
		return
	}
	s.giveBack(a, tasks)
	a.revoke(Returned, "", err)
	if !interrupted(cause) {
		a.oneByOne()
	}
}

// batchError returns the BatchError that a handler returned, wrapped perhaps: a RetryAfter, Snooze, Unavailable or
// DeadLetter around it is for each of its jobs. Not one that it panicked with, or joined with another error: then more
// went wrong than it tells.
func batchError(err error) (_ BatchError, is bool) {
	var around []func(error) error
	for err != nil {
		switch e := err.(type) { //nolint:errorlint // one step at a time
		case BatchError:
			return e.within(around), true
		case *PanicError:
			return nil, false
		case interface{ around(reason error) error }:
			around = append(around, e.around)
		}
		err = errors.Unwrap(err)
	}
	return nil, false
}

// within returns the error with its reasons wrapped by all of these.
func (e BatchError) within(around []func(error) error) BatchError {
	if len(around) == 0 {
		return e
	}
	wrapped := make(BatchError, len(e))
	for id, reason := range e {
		for _, wrap := range slices.Backward(around) {
			reason = wrap(cmp.Or(reason, errNoReason))
		}
		wrapped[id] = reason
	}
	return wrapped
}

// names reports whether the error is about any of the jobs.
func names(e BatchError, tasks []task) bool {
	for i := range tasks {
		if _, ok := e[tasks[i].job.ID]; ok {
			return true
		}
	}
	return false
}

// partly settles a batch in which the named jobs have failed and stopped their groups.
func (s *seat) partly(a *attempt, tasks []task, named BatchError, cause error) {
	done := make([]task, 0, len(tasks))
	var stopped *place
	for i, t := range tasks {
		err, failed := named[t.job.ID]
		switch {
		case t.place == stopped:
			s.giveBack(a, tasks[i:i+1])
		case failed:
			stopped = t.place
			if err == nil {
				err = errNoReason
			}
			s.failed(a, t, err, cause)
		default:
			a.add(result{job: t.job, place: t.place, outcome: Succeeded})
			t.place.outcome.Finished, t.place.outcome.More = t.job.ID, t.held.More
			done = append(done, t)
		}
	}
	s.succeed(a, done)
}

var errNoReason = errors.New("fifo: the BatchError names the job without a reason")

// giveBack says of the jobs that they stay where they are.
func (s *seat) giveBack(a *attempt, tasks []task) {
	for _, t := range tasks {
		a.add(result{job: t.job, place: t.place, outcome: Returned, failure: &failure{err: errStopped}})
		t.place.outcome.More = true
	}
}

var errStopped = errors.New("fifo: a job before this one failed")

var (
	failedBatchStmt  = settles("failed_batch")
	relaxStmt        = settles("relax")
	succeedStmt      = settles("succeed")
	succeedUsedStmt  = settles("succeed_used")
	succeedBatchStmt = settles("succeed_batch")
)

// succeed adds what settles jobs that are done: one statement for all. If a handler had the transaction, the other jobs
// of the batch must be there, to be counted. In a relaxed queue it is their commit alone that does not wait: what is
// recorded of failed ones is not to be lost.
func (s *seat) succeed(a *attempt, done []task) {
	used := s.holder.Used()
	heads, behind := split(done)
	if len(a.charged) > 0 && len(a.results) > 1 {
		charged, others := split(a.charged)
		a.calls = append(batchCalls(failedBatchStmt, charged, others), a.calls...)
	}
	if s.queue.Relaxed && len(done) > 0 && len(a.charged) == 0 {
		a.calls = append(a.calls, lease.Call{Statement: relaxStmt, Behind: len(behind) > 0, Relaxes: true})
	}
	if len(heads) == 1 {
		statement := succeedStmt
		if used {
			statement = succeedUsedStmt
		}
		args := append(keyArgs(heads[0].job), heads[0].held.Place.Append(nil))
		a.calls = append(a.calls, lease.Call{Statement: statement, Args: args, Job: heads[0].job.ID, Completes: true})
		heads = nil
	}
	a.calls = append(a.calls, batchCalls(succeedBatchStmt, heads, behind)...)
	a.leave(done)
}

// split parts the jobs at the heads of their groups, whose rows are locked, from those behind them.
func split(tasks []task) (heads, behind []task) {
	for i, t := range tasks {
		if t.job.ID != t.place.held.ID {
			return tasks[:i], tasks[i:]
		}
	}
	return tasks, nil
}

// batchCalls call a statement for the jobs at the heads of their groups, and for those behind them.
func batchCalls(statement string, heads, behind []task) (calls []lease.Call) {
	if len(heads) > 0 {
		calls = append(calls, batchCall(statement, heads))
	}
	if len(behind) > 0 {
		c := batchCall(statement, behind)
		c.Behind = true
		calls = append(calls, c)
	}
	return calls
}

// batchCall calls a statement with a queue, the ids of its jobs and the places of their rows.
func batchCall(statement string, tasks []task) lease.Call {
	ids := array.Ints(tasks, func(t task) int64 { return t.job.ID })
	places := array.Of(tasks, func(to []byte, t task) []byte { return t.held.Place.Element(to) })
	return lease.Call{Statement: statement, Args: [][]byte{[]byte(tasks[0].job.Queue), ids, places}}
}
