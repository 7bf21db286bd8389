package fifo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/internal/array"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// handleEach runs the handler once for each of the jobs that are held, and decides what becomes of them.
func (a *attempt) handleEach(stop, ctx context.Context, tasks []task) {
	h := a.queue.Handler // kept here: it may be called after the seat has gone on
	done := tasks[:0]    // those up to the present one have been read
	var stopped *place
	probed, lost := false, false // lost: the connection that the next one would have
	for i := range tasks {
		t, last := tasks[i], i == len(tasks)-1
		if t.place == stopped || i > 0 && (stop.Err() != nil || probed || lost ||
			a.holder.Lane().Spoiled() || a.toEnd(tasks[i:i+1]) != nil) {
			t.place.outcome.More = true
			continue
		}
		before := len(a.results)
		err, notHeld, cause := a.lend(ctx, tasks[i:i+1], func(ctx context.Context, jobs []*Job) error {
			return h(ctx, jobs[0])
		})
		last = last || a.holder.Lane().Spoiled()
		if err == nil && notHeld == nil && !last {
			notHeld = a.holder.KeepWrites(ctx)
		}
		switch {
		case errors.Is(notHeld, lease.ErrLost):
			a.add(result{task: t})
			a.revoke(Unknown, KindLost, errors.Join(notHeld, err))
			return
		case errors.Is(notHeld, lease.ErrUnsettled):
			a.add(result{task: t})
			a.revoke(Returned, KindError, notHeld)
			a.broken = true
			return
		case err == nil && notHeld == nil:
			a.add(result{task: t, outcome: Succeeded})
			t.place.outcome.Finished, t.place.outcome.More = t.job.ID, t.held.More
			done = append(done, t)
			probed = a.answered(a.results[before:])
			continue
		case err == nil:
			err = notHeld
		}
		stopped = t.place
		if undone := a.holder.Lane().Undo(ctx); undone != nil { // and so are those before it
			a.revoke(Returned, "", err)
			a.failed(t, err, cause)
			a.calls, a.broken = nil, true
			a.answered(a.results[before:])
			return
		}
		a.failed(t, err, cause)
		probed = a.answered(a.results[before:])
		if !last {
			lost = errors.Is(a.holder.KeepWrites(ctx), lease.ErrLost) // if this fails, the step fails, too
		}
	}
	a.succeed(done)
}

// lend lends the lane to a handler of the given jobs, and returns the handler's error. notHeld is nil if what it wrote
// can be committed, else it says why not. cause is that of the handler's context. The handler gets copies of the Jobs
// and may keep them. Outcomes, and what hooks are told, come from the originals.
func (a *attempt) lend(
	ctx context.Context, tasks []task, handler func(context.Context, []*Job) error,
) (err, notHeld, cause error) {
	c := a.crew
	hctx, stop := context.WithCancelCause(ctx)
	defer a.watch(stop, tasks)()
	if timeout := a.queue.JobTimeout; timeout > 0 {
		var cancel context.CancelFunc
		hctx, cancel = context.WithTimeoutCause(hctx, times(len(tasks), timeout), ErrJobTimeout)
		defer cancel()
	}
	if c.worker.Client.hooks.any(func(h Hooks) bool { return h.Job != nil }) {
		hooked := make([]atomic.Pointer[context.Context], len(tasks))
		for i := range tasks {
			tasks[i].job.hooked = &hooked[i]
		}
	}
	jobs, loan := copies(tasks), a.holder.Loan()
	for _, job := range jobs {
		job.loan, job.held = loan, job.Group()
	}
	a.doing.Store(tasks[0].job)
	c.worker.stats.running.Add(int64(len(tasks)))
	var gone error
	notHeld = a.holder.Lend(hctx, func() {
		err, gone = a.await(hctx, tasks, c.worker.Client.hooks.start(hctx, jobs, handler))
	})
	c.worker.stats.running.Add(-int64(len(tasks)))
	cause = context.Cause(hctx)
	if gone != nil {
		_ = a.holder.Close()
		return err, gone, cause
	}
	if err == nil && notHeld == nil && loan.Forgone() {
		a.holder.Lane().Aside(func() { c.teller.forgone(c.log, tasks[0].job) })
	}
	return err, notHeld, cause
}

// await waits for the handler of the given jobs to return its error. If the handler goes on after its context has
// ended, await tells of it again and again. When it is time to abandon it, await cuts the connection and leaves it
// behind. gone is ErrLost then, or ErrNotHeld if the failure is to be recorded on another connection.
func (a *attempt) await(ctx context.Context, tasks []task, result <-chan error) (err, gone error) {
	select {
	case err = <-result:
		return err, nil
	case <-ctx.Done():
	}
	c, ended, n := a.crew, time.Now(), int64(len(tasks))
	var abandon <-chan time.Time
	if after := a.queue.AbandonAfter; after > 0 {
		abandon = time.After(after)
	}
	report := time.NewTimer(tuning.Wait) // then after twice as long, and so on
	told, returned, heard := time.Duration(0), false, make(chan struct{}, 1)
	for !returned && gone == nil {
		if errors.Is(a.toEnd(tasks), ErrLost) { // the group was taken from the session
			a.holder.FreeSlot()
		}
		select {
		case err = <-result:
			returned = true
		case <-report.C:
			if told == 0 {
				c.worker.stats.overdue.Add(n)
				c.worker.stats.timesOverdue.Add(n)
			}
			told = time.Since(ended)
			late, jobs := told, copies(tasks)
			go func() { // a hook that takes its time must not keep the handler from being abandoned
				c.worker.Client.hooks.overdue(ctx, jobs, late)
				heard <- struct{}{}
			}()
		case <-heard:
			report.Reset(min(told, tuning.Long))
		case <-abandon:
			gone = lease.ErrLost
			if errors.Is(context.Cause(ctx), ErrJobTimeout) {
				gone = lease.ErrNotHeld
			}
		case <-c.left.closing:
			gone = lease.ErrLost
		}
	}
	if told > 0 {
		c.worker.stats.overdue.Add(-n)
	}
	if gone == nil {
		return err, nil
	}
	a.holder.Abandon()
	c.left.handler(tasks, result)
	late := time.Since(ended).Round(time.Millisecond)
	logLate(c.log, "pgfifo: handler abandoned; its connection is closed", tasks[0].job, n, late, context.Cause(ctx))
	return fmt.Errorf("%w after %v", ErrAbandoned, late), gone
}

// answered tells the Turns whether what the jobs depend on is there, if the results of a handler's call say so, and
// reports whether the queue is probed now.
func (a *attempt) answered(results []result) (probed bool) {
	var says *result
	for i := range results {
		r := &results[i]
		if r.outcome == Succeeded {
			says = r
			break
		}
		if says == nil && r.unavailable() {
			says = r
		}
	}
	if says == nil {
		return false
	}
	probed, changed := a.crew.turns.Answer(says.place.turn, says.outcome == Succeeded)
	if !changed {
		return probed
	}
	log := a.crew.log
	a.holder.Lane().Aside(func() {
		if probed {
			log.Warn("pgfifo: queue is unavailable; one job at a time is tried", "queue", says.job.Queue,
				"error", briefErr(says.failure.err))
		} else {
			log.Info("pgfifo: queue is available again", "queue", says.job.Queue)
		}
	})
	return probed
}

// failed adds the failure of a job whose handler has returned with an error.
func (a *attempt) failed(t task, err, cause error) {
	if interrupted(cause) {
		a.add(result{task: t, outcome: Returned, failure: &failure{err: err}})
		t.place.outcome.More = true
		return
	}
	a.fail(t, newFailure(err, cause, a.queue.JobTimeout), a.delay(t, err))
}

// handleSlice runs the handler once for all of the jobs that are held, and decides what becomes of them.
func (a *attempt) handleSlice(ctx context.Context, tasks []task) {
	err, notHeld, cause := a.lend(ctx, tasks, a.queue.BatchHandler)
	named, is := batchError(err)
	if is && len(named) == 0 { // no job has failed
		err = nil
	}
	switch {
	case errors.Is(notHeld, lease.ErrLost):
		a.giveBack(tasks)
		a.revoke(Unknown, KindLost, errors.Join(notHeld, err))
		return
	case notHeld == nil && (err == nil || names(named, tasks)):
		a.partly(tasks, named, cause)
		return
	case err == nil:
		err = notHeld
	}
	a.broken = a.holder.Lane().Undo(ctx) != nil
	if len(tasks) == 1 || uncounted(err) && !errors.As(err, new(BatchError)) {
		all := make(BatchError, len(tasks))
		for i := range tasks {
			all[tasks[i].job.ID] = err
		}
		a.partly(tasks, all, cause)
		if a.broken {
			a.calls = nil
		}
		return
	}
	a.giveBack(tasks)
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
	return slices.ContainsFunc(tasks, func(t task) bool {
		_, named := e[t.job.ID]
		return named
	})
}

// partly settles a batch in which the named jobs have failed and stopped their groups.
func (a *attempt) partly(tasks []task, named BatchError, cause error) {
	done := make([]task, 0, len(tasks))
	var stopped *place
	for i, t := range tasks {
		err, failed := named[t.job.ID]
		switch {
		case t.place == stopped:
			a.giveBack(tasks[i : i+1])
		case failed:
			stopped = t.place
			a.failed(t, cmp.Or(err, errNoReason), cause)
		default:
			a.add(result{task: t, outcome: Succeeded})
			t.place.outcome.Finished, t.place.outcome.More = t.job.ID, t.held.More
			done = append(done, t)
		}
	}
	a.succeed(done)
}

var errNoReason = errors.New("fifo: the BatchError names the job without a reason")

// giveBack says of the jobs that they stay where they are.
func (a *attempt) giveBack(tasks []task) {
	for _, t := range tasks {
		a.add(result{task: t, outcome: Returned, failure: &failure{err: errStopped}})
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

// succeed adds the calls that settle jobs that are done: one statement for all. Before them, one makes sure that the
// failed jobs of the batch are there to be counted. In a relaxed queue the commit waits only if a job has failed: that
// must not be lost.
func (a *attempt) succeed(done []task) {
	heads, behind := split(done)
	if len(a.charged) > 0 && len(a.results) > 1 {
		charged, others := split(a.charged)
		a.calls = append(batchCalls(failedBatchStmt, charged, others), a.calls...)
	}
	if a.queue.Relaxed && len(done) > 0 && len(a.charged) == 0 {
		a.calls = append(a.calls, lease.Call{Statement: relaxStmt, Behind: len(behind) > 0, Relaxes: true})
	}
	if len(heads) == 1 {
		statement := succeedStmt
		if a.holder.Used() {
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
