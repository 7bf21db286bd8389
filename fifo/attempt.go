package fifo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// An attempt is a claim that is being worked: its results so far, and the calls that will settle them in the next step.
type attempt struct {
	results []result     // of the jobs whose handlers ran or whose lost attempts were found
	ran     bool         // a handler ran
	calls   []lease.Call // what settles it
	charged []task       // whose failures are among the calls
	now     bool         // the groups are to be tried again before any other
	broken  bool         // the transaction is lost, but not to a crash

	oneResult [1]result // most have one
	oneCall   [1]lease.Call
}

// A result is what became of one job.
type result struct {
	job     *Job
	place   *place
	outcome Outcome
	failure *failure // why, unless it succeeded
	moved   string   // to this queue of dead letters

	delayKnown bool          // delay is set: Retry is not asked again
	delay      time.Duration // until the next attempt
}

// A failure is why an attempt failed.
type failure struct {
	kind  string
	err   error
	stack string
}

// add appends a result. The pointer is good until the next one.
func (a *attempt) add(r result) *result {
	a.results = append(a.results, r)
	return &a.results[len(a.results)-1]
}

// revoke marks all results so far as not recorded: the transaction was undone or lost.
func (a *attempt) revoke(outcome Outcome, kind string, why error) {
	a.calls = nil
	for i := range a.results {
		r := &a.results[i]
		r.outcome, r.failure, r.delayKnown = outcome, &failure{kind: kind, err: why}, false
		r.place.outcome = schedule.Outcome{Missed: outcome == Unknown, More: outcome != Unknown}
	}
}

// unsettle says of jobs that are done that they run again, because the session could not settle them. What has failed
// stays failed.
func (a *attempt) unsettle(why error) {
	for i := range a.results {
		if r := &a.results[i]; r.outcome == Succeeded {
			r.outcome, r.failure = Returned, &failure{kind: KindError, err: why}
			r.place.outcome = schedule.Outcome{More: true}
		}
	}
}

// attempt runs the handlers of the jobs that were claimed, if they may run. stop ends between the jobs of a batch.
func (s *seat) attempt(stop, ctx context.Context, claim []place, hold *lease.Hold) *attempt {
	stats := &s.crew.worker.stats
	stats.claims.Add(int64(len(claim)))
	a := new(attempt)
	a.results, a.calls = a.oneResult[:0], a.oneCall[:0]
	stats.missed.Add(int64(len(claim) - deal(claim, hold)))
	if hold == nil {
		s.overLimit(claim)
		claim[0].outcome.NextLocked = s.holder.Missed() == lease.NextLocked
		return a
	}
	if claim[0].turn.HasSlot() {
		s.crew.turns.Under(hold.Queue)
	}
	s.queue = s.crew.set.queues[hold.Queue]
	lost, err := s.holder.Lost(ctx)
	if err != nil || s.holder.Closed() { // or it was lost beside a hook, and the groups may be others' by now
		s.unbegun(ctx, claim, lost)
		return a
	}
	switch {
	case len(lost) > 0: // before anything else: the evidence is gone when this transaction ends
		s.lost(a, claim, lost)
		return a
	case stop.Err() != nil: // given back
		return a
	case hold.Paused:
		claim[hold.N].outcome.Paused = true
		return a
	case hold.DueIn > 0:
		claim[hold.N].outcome.DueIn = hold.DueIn
		return a
	case hold.Suspect && !claim[hold.N].turn.SuspectAllowed(): // claimed again when it may be: no session has it
		p := &claim[hold.N]
		a.now, p.alone, p.outcome = true, true, schedule.Outcome{More: true, Untried: true}
		return a
	case s.overtakes(claim):
		a.now = true
		goOn(claim)
		return a
	case s.queue.blocks(&hold.Held): // no other job is in the claim: one that has failed is claimed alone
		s.fail(a, task{job: s.queue.newJob(&hold.Held), place: &claim[hold.N], held: &hold.Held}, usedUp, 0)
		return a
	}
	switch err := s.mark(ctx, claim); {
	case errors.Is(err, lease.ErrLost):
		s.unbegun(ctx, claim, nil)
		return a
	case errors.Is(err, lease.ErrPaused):
		goOn(claim) // whoever claims it again finds of what the pause is
		return a
	case err != nil: // what becomes of the group is said
		return a
	case stop.Err() != nil && !hold.GroupSlot: // to mark may take long; of several jobs, one has started with its mark
		return a
	}
	s.crew.turns.Started(claim[hold.N].turn, hold.ID, hold.More, hold.Suspect)
	a.ran = true
	s.begun++
	goOn(claim) // unless its handler runs, and says something else
	jobs := s.queue.newJobs(claim, hold)
	if s.queue.BatchHandler != nil {
		s.handleSlice(ctx, a, jobs)
		s.answered(a.results)
	} else {
		s.handleEach(stop, ctx, a, jobs)
	}
	return a
}

// overtakes reports whether a head that is held may have overtaken another job of its group.
func (s *seat) overtakes(claim []place) bool {
	return slices.ContainsFunc(claim, func(p place) bool {
		return p.held != nil && s.crew.turns.Overtakes(p.turn, p.held.ID)
	})
}

// overLimit says so if that is why nothing was claimed.
func (s *seat) overLimit(claim []place) {
	if s.holder.Missed() != lease.OverLimit {
		return
	}
	s.crew.turns.Over(claim[0].turn.Queue)
	for i := range claim {
		claim[i].outcome.Over = true
	}
}

// unbegun gives back what was claimed in a session that has ended before a handler began: that is no attempt. Those
// that may have been lost before keep the evidence of that.
func (s *seat) unbegun(ctx context.Context, claim []place, lost []*lease.Held) {
	_ = s.holder.Close()
	goOn(claim)
	for i := range claim {
		h := claim[i].held
		if h == nil || slices.Contains(lost, h) {
			continue
		}
		if err := s.holder.Record(ctx, h); err != nil && !lease.Refused(err) {
			return // nobody can be told now
		}
	}
}

// goOn says that the held groups have more to do: they keep their place in line.
func goOn(claim []place) {
	for i := range claim {
		if p := &claim[i]; p.held != nil {
			p.outcome.More = true
		}
	}
}

// lost charges the heads whose worker died, and claims all groups again.
func (s *seat) lost(a *attempt, claim []place, lost []*lease.Held) {
	a.now = true
	goOn(claim)
	for _, h := range lost {
		t := task{job: s.queue.newJob(h), place: &claim[h.N], held: h}
		s.doing.Store(t.job)
		s.fail(a, t, &failure{kind: KindLost, err: diedError{}}, s.delay(t.place, t.job, diedError{}))
	}
}

// mark marks the attempts that are about to begin, durably, if they need it: a lane's first ones, so that a job is
// counted that kills its worker at each start; those of jobs that have failed or were lost before; and all where
// several jobs of a group may run. With an error they do not begin: it is ErrLost if the lane does not hold them any
// more, for to mark may take long, and ErrPaused if they are paused by then.
func (s *seat) mark(ctx context.Context, claim []place) error {
	var heads []*lease.Held
	for i := range claim {
		if h := claim[i].held; h != nil && (s.begun < tuning.Many || h.Attempts > 0 || h.GroupSlot) {
			heads = append(heads, h)
		}
	}
	if len(heads) == 0 {
		return nil
	}
	err := s.holder.Mark(ctx, heads)
	switch {
	case errors.Is(err, lease.ErrLost), s.holder.HungUp():
		return lease.ErrLost
	case err == nil, errors.Is(err, lease.ErrPaused):
		return err
	}
	if heads[0].GroupSlot { // a claim of one job, and nothing but its mark would tell of its death
		s.crew.trouble(heads[0].Key, err)
		claim[0].outcome = schedule.Outcome{Trouble: true}
		return err
	}
	s.crew.log.Warn("pgfifo: attempt not marked", "queue", heads[0].Queue, "group", heads[0].GroupID, "error", err)
	return nil // the locks alone tell of a crash then, as they do of most jobs
}

// lend lends the lane to a handler of the given jobs, and returns the handler's error. notHeld is nil if what it wrote
// can be committed, else it says why not. cause is that of the handler's context. The handler gets copies of the Jobs
// and may keep them. What becomes of the jobs, and what hooks are told, is of the originals.
func (s *seat) lend(
	ctx context.Context, tasks []task, handler func(context.Context, []*Job) error,
) (err, notHeld, cause error) {
	c := s.crew
	hctx, stop := context.WithCancelCause(ctx)
	unwatch := s.watch(stop, tasks)
	defer unwatch()
	if timeout := s.queue.JobTimeout; timeout > 0 {
		var cancel context.CancelFunc
		hctx, cancel = context.WithTimeoutCause(hctx, times(len(tasks), timeout), ErrJobTimeout)
		defer cancel()
	}
	if slices.ContainsFunc(c.worker.Client.cfg.Hooks, func(h Hooks) bool { return h.Job != nil }) {
		for i := range tasks {
			tasks[i].job.hooked = new(atomic.Pointer[context.Context])
		}
	}
	jobs, loan := copies(tasks), s.holder.Loan()
	for _, job := range jobs {
		job.loan = loan
	}
	s.doing.Store(tasks[0].job)
	c.worker.stats.running.Add(int64(len(tasks)))
	var gone error
	notHeld = s.holder.Lend(hctx, func() {
		err, gone = s.await(hctx, tasks, c.worker.Client.start(hctx, jobs, handler))
	})
	c.worker.stats.running.Add(-int64(len(tasks)))
	cause = context.Cause(hctx)
	if gone != nil {
		_ = s.holder.Close()
		return err, gone, cause
	}
	return err, notHeld, cause
}

// times returns n times d, or the longest Duration if that is less.
func times(n int, d time.Duration) time.Duration {
	if d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

// delay returns how long the group waits before the next attempt.
func (s *seat) delay(p *place, job *Job, err error) time.Duration {
	least, most := time.Duration(0), MaxDelay
	givenBack := uncounted(err)
	if givenBack {
		least = minSnooze
	}
	after, says := AsSnooze(err)
	if !says || !givenBack {
		after, says = AsRetryAfter(err)
	}
	if !says {
		its := *job
		if givenBack { // Unavailable
			its.Attempts, most = its.Attempts+s.crew.turns.Unavailable(p.turn), maxUnavailable
		}
		after = s.backoff(its, err)
	}
	return min(max(after, least), most)
}

// backoff asks the queue's Retry, which is the user's code: it may take its time, panic, or end its goroutine. Then the
// default is used.
func (s *seat) backoff(job Job, err error) time.Duration {
	d := DefaultRetry(&job, err)
	job.Headers = maps.Clone(job.Headers)
	s.holder.Lane().Aside(func() {
		s.crew.worker.Client.guardLane("Retry", func() { d = s.queue.Retry(&job, err) })
	})
	return d
}

// diedError is the failure of an attempt that was lost, as the worker that finds it tells it.
type diedError struct{}

func (diedError) Error() string {
	return "the outcome was not recorded: the worker or its connection died, or the server refused it"
}

func (diedError) Is(target error) bool { return target == ErrLost }

func newFailure(err, cause error, timeout time.Duration) *failure {
	if p := (*PanicError)(nil); errors.As(err, &p) {
		return &failure{kind: KindPanic, err: err, stack: string(p.Stack)}
	}
	if errors.Is(cause, ErrJobTimeout) {
		if err == ErrJobTimeout { //nolint:errorlint // the cause itself: it says nothing more
			return &failure{kind: KindTimeout, err: fmt.Errorf("%w after %v", err, timeout)}
		}
		return &failure{kind: KindTimeout, err: fmt.Errorf("%w after %v: %w", ErrJobTimeout, timeout, err)}
	}
	return &failure{kind: KindError, err: err}
}

// fail adds what settles a failed attempt: another one after delay, or the dead letters. So it does for one that is
// not counted.
func (s *seat) fail(a *attempt, t task, f *failure, delay time.Duration) {
	r := a.add(result{job: t.job, place: t.place, failure: f, delayKnown: true, delay: delay})
	a.calls, a.charged = append(a.calls, s.failCall(r, delay)), append(a.charged, t)
	t.place.failed(r, delay, t.held.More)
}

var (
	snoozeStmt = settles("snooze")
	retryStmt  = settles("retry")
)

// failCall returns what records a failed attempt, and says in the result what that makes of the job.
func (s *seat) failCall(r *result, delay time.Duration) lease.Call {
	job, f, name := r.job, r.failure, s.crew.set.name
	args := append(keyArgs(job), strconv.AppendInt(nil, int64(job.Attempts), 10))
	kind, text, stack := []byte(f.kind), []byte(scrub(f.err.Error(), maxErrorBytes)),
		[]byte(scrub(f.stack, maxStackBytes))
	worker, keep := []byte(scrub(name, maxErrorBytes)), []byte(strconv.Itoa(maxFailures))
	us := []byte(strconv.FormatInt(delay.Microseconds(), 10))
	if uncounted(f.err) {
		r.outcome = Snoozed
		return lease.Call{Statement: snoozeStmt, Args: append(args, us), Job: job.ID}
	}
	if job.Attempt() >= job.MaxAttempts || IsDeadLetter(f.err) {
		return s.queue.giveUpCall(r, args, kind, text, stack, worker, keep)
	}
	r.outcome = Retried
	return lease.Call{Statement: retryStmt, Args: append(args, us, kind, text, stack, worker, keep), Job: job.ID}
}

func keyArgs(job *Job) [][]byte {
	return append(make([][]byte, 0, 10), []byte(job.Queue), []byte(job.GroupID), strconv.AppendInt(nil, job.ID, 10))
}
