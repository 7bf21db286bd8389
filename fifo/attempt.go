package fifo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// An attempt is what a lane did with a group that it claimed, to be settled with its next step.
type attempt struct {
	job     *Job           // nil if no handler ran and no lost attempt was found
	ran     bool           // a handler ran
	calls   []groups.Call  // what settles it
	turn    groups.Outcome // what the Turns should know
	now     bool           // the group is to be tried again before any other
	outcome Outcome
	failure *failure // why, unless it succeeded
	reclaim bool     // the transaction is lost, but not to a crash: claim again to record the failure
}

// A failure is why an attempt failed.
type failure struct {
	kind  string
	err   error
	stack string
}

// attempt runs the handler of the job that was claimed, if it may run.
func (s *seat) attempt(ctx context.Context, turn *groups.Turn, hold *groups.Hold) *attempt {
	c := s.crew
	c.worker.stats.claims.Add(1)
	if hold == nil {
		c.worker.stats.missed.Add(1)
		return &attempt{turn: groups.Outcome{Missed: true}}
	}
	lost, err := s.lane.Lost(ctx)
	if err != nil {
		_ = s.lane.Close() // the next step says so
		return &attempt{turn: groups.Outcome{Missed: true}}
	}
	switch {
	case lost: // before anything else: the evidence is gone when this transaction ends
		c.worker.stats.lost.Add(1)
		f := &failure{kind: KindLost, err: diedError{}}
		a := &attempt{job: c.newJob(hold), failure: f}
		s.fail(a, hold, f, 0)
		a.now = true
		return a
	case hold.Paused:
		return &attempt{}
	case hold.DueIn > 0:
		return &attempt{turn: groups.Outcome{DueIn: hold.DueIn}}
	}
	return s.handle(ctx, hold)
}

func (c *crew) newJob(hold *groups.Hold) *Job {
	job := &Job{
		Queue: hold.Queue, GroupID: hold.GroupID, ID: hold.ID, Payload: hold.Payload,
		Attempts: hold.Attempts, MaxAttempts: hold.MaxAttempts, EnqueuedAt: hold.EnqueuedAt,
	}
	if job.MaxAttempts == 0 {
		job.MaxAttempts = c.set.maxAttempts
	}
	return job
}

// handle runs the handler and decides what becomes of the job.
func (s *seat) handle(ctx context.Context, hold *groups.Hold) *attempt {
	c := s.crew
	job := c.newJob(hold)
	job.hold = hold
	a := &attempt{job: job, ran: true}

	hctx, stop := context.WithCancelCause(ctx)
	unwatch := s.watch(hold.Key, stop)
	defer unwatch()
	if c.set.jobTimeout > 0 {
		var cancel context.CancelFunc
		hctx, cancel = context.WithTimeoutCause(hctx, c.set.jobTimeout, ErrJobTimeout)
		defer cancel()
	}

	var err error
	c.worker.stats.running.Add(1)
	held := s.lane.Lend(func() {
		hctx, done := c.worker.Client.cfg.Hooks.job(hctx, job)
		err = c.call(hctx, job)
		done(err)
	})
	c.worker.stats.running.Add(-1)
	job.hold = nil

	cause := context.Cause(hctx)
	switch {
	case errors.Is(held, groups.ErrLost):
		a.outcome, a.failure = Unknown, &failure{kind: KindLost, err: errors.Join(held, err)}
		a.turn.Missed = true
		return a
	case err == nil && held == nil:
		a.outcome = Succeeded
		a.calls = []groups.Call{{Statement: succeedStmt, Args: keyArgs(job)}}
		a.turn = groups.Outcome{Finished: job.ID, More: hold.More}
		return a
	case err == nil:
		err = held
	}
	undone := s.lane.Undo(ctx)
	if errors.Is(cause, ErrShutdown) && undone == nil {
		a.outcome, a.failure = Returned, &failure{err: err}
		return a
	}
	f := newFailure(err, cause, c.set.jobTimeout)
	a.failure = f
	s.fail(a, hold, f, c.delay(job, err))
	if undone != nil {
		a.reclaim, a.calls = true, nil
	}
	return a
}

// call runs the handler of the job's queue.
func (c *crew) call(ctx context.Context, job *Job) error {
	h := c.worker.handlers[job.Queue]
	if h == nil {
		return errMissingHandler(job.Queue)
	}
	return call(ctx, h, job)
}

// delay returns how long the group waits before the next attempt.
func (c *crew) delay(job *Job, err error) time.Duration {
	if after := (*retryAfterError)(nil); errors.As(err, &after) {
		return min(max(after.after, 0), MaxDelay)
	}
	return min(max(c.backoff(job, err), 0), MaxDelay)
}

// backoff asks the worker's RetryPolicy. One that panics must not take the worker with it.
func (c *crew) backoff(job *Job, err error) (d time.Duration) {
	defer func() {
		if v := recover(); v != nil {
			c.log.Error("pgfifo: the RetryPolicy panicked; the default is used", "panic", v)
			d = DefaultRetry(job, err)
		}
	}()
	return c.set.retry(job, err)
}

// diedError is the failure of an attempt that was lost, as the worker that finds it tells it.
type diedError struct{}

func (diedError) Error() string { return "the worker, or its connection, died with the job" }

func (diedError) Is(target error) bool { return target == ErrLost }

func newFailure(err, cause error, timeout time.Duration) *failure {
	if p := (*PanicError)(nil); errors.As(err, &p) {
		return &failure{kind: KindPanic, err: err, stack: string(p.Stack)}
	}
	if errors.Is(cause, ErrJobTimeout) {
		return &failure{kind: KindTimeout, err: fmt.Errorf("%w after %v: %w", ErrJobTimeout, timeout, err)}
	}
	return &failure{kind: KindError, err: err}
}

// fail fills in what settles a failed attempt: another one after delay, or the dead letters.
func (s *seat) fail(a *attempt, hold *groups.Hold, f *failure, delay time.Duration) {
	job, name := a.job, s.crew.set.name
	args := keyArgs(job)
	kind, text, stack := []byte(f.kind), []byte(scrub(f.err.Error(), maxErrorBytes)), []byte(scrub(f.stack, maxStackBytes))
	worker, keep := []byte(scrub(name, maxErrorBytes)), []byte(strconv.Itoa(maxFailures))
	final := job.Attempt() >= job.MaxAttempts
	if dead := (*deadLetterError)(nil); errors.As(f.err, &dead) {
		final = true
	}
	if final {
		a.outcome = Buried
		a.calls = []groups.Call{{Statement: buryStmt, Args: append(args, kind, text, stack, worker, keep)}}
		a.turn = groups.Outcome{Finished: job.ID, More: hold.More}
		return
	}
	a.outcome = Retried
	us := strconv.FormatInt(delay.Microseconds(), 10)
	a.calls = []groups.Call{{Statement: retryStmt, Args: append(args, []byte(us), kind, text, stack, worker, keep)}}
	a.turn = groups.Outcome{DueIn: delay, More: true}
}

func keyArgs(job *Job) [][]byte {
	return [][]byte{[]byte(job.Queue), []byte(job.GroupID), strconv.AppendInt(nil, job.ID, 10)}
}

// settle tells hooks, counters and the log what became of an attempt whose step is done. If the step failed but the
// lane is there, what failed is the handler's doing (it ended the transaction, or a deferred constraint stopped the
// commit): that is recorded as a failed attempt, and settle reports true.
func (s *seat) settle(ctx context.Context, a *attempt, settled bool, err error) (recorded bool) {
	if a.job == nil {
		return false
	}
	c := s.crew
	switch {
	case a.outcome == Unknown:
	case a.reclaim:
		recorded = s.record(ctx, a)
	case settled:
	case s.lane.Closed():
		a.outcome, a.turn = Unknown, groups.Outcome{Missed: true}
		a.failure = &failure{kind: KindLost, err: err}
	default:
		a.failure = &failure{kind: KindError, err: fmt.Errorf("fifo: the job could not be completed: %w", err)}
		recorded = s.record(ctx, a)
	}
	c.worker.stats.outcomes[a.outcome].Add(1)
	var why error
	if a.failure != nil {
		why = a.failure.err
	}
	attrs := []any{"queue", a.job.Queue, "group", a.job.GroupID, "job", a.job.ID, "attempt", a.job.Attempt(), "error", why}
	switch a.outcome {
	case Buried:
		c.log.Info("pgfifo: dead letter", attrs...)
	case Retried, Returned, Unknown:
		c.log.Debug("pgfifo: attempt "+a.outcome.String(), attrs...)
	}
	c.worker.Client.cfg.Hooks.settled(ctx, a.job, a.outcome, why)
	return recorded
}

// record claims the job once more to record a failed attempt, after its transaction was lost while the worker lives. If
// somebody else has it by now, their attempt is the one that counts.
func (s *seat) record(ctx context.Context, a *attempt) bool {
	err := s.tryRecord(ctx, a)
	if err != nil {
		a.outcome, a.turn = Unknown, groups.Outcome{Missed: true}
		s.crew.log.Warn("pgfifo: failed attempt not recorded", "queue", a.job.Queue, "group", a.job.GroupID,
			"job", a.job.ID, "failure", a.failure.err, "error", err)
	}
	return err == nil
}

var errTakenOver = errors.New("fifo: another worker has the job")

func (s *seat) tryRecord(ctx context.Context, a *attempt) error {
	if s.lane.Closed() {
		if err := s.dial(ctx); err != nil {
			return err
		}
	}
	hold, _, err := s.lane.Step(ctx, nil, groups.At(a.job.Group(), a.job.ID))
	if err != nil {
		return err
	}
	if hold == nil || hold.ID != a.job.ID {
		_, _, err := s.lane.Step(ctx, nil, nil)
		return errors.Join(errTakenOver, err)
	}
	a.job.Attempts = hold.Attempts
	s.fail(a, hold, a.failure, s.crew.delay(a.job, a.failure.err))
	_, _, err = s.lane.Step(ctx, a.calls, nil)
	return err
}
