package fifo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/internal/array"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// An attempt is a claim that is being worked: its results so far, and the calls that will settle them in the next step.
type attempt struct {
	*seat
	claim   []place
	results []result     // of the jobs whose handlers ran or whose lost attempts were found
	ran     bool         // a handler ran
	calls   []lease.Call // what settles it
	charged []task       // whose failures are among the calls
	now     bool         // the groups are to be tried again before any other
	broken  bool         // the transaction is lost, but not to a crash
}

// A result is what became of one job.
type result struct {
	task
	outcome Outcome
	failure *failure // why, unless it succeeded
	moved   string   // to this DeadLetterQueue

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

// unsettle notes that the jobs that are done run again, because the session could not settle them. What has failed
// stays failed.
func (a *attempt) unsettle(why error) {
	for i := range a.results {
		if r := &a.results[i]; r.outcome == Succeeded {
			r.outcome, r.failure = Returned, &failure{kind: KindError, err: why}
			r.place.outcome = schedule.Outcome{More: true}
		}
	}
}

// run runs the handlers of the jobs that were claimed, if they may run. stop ends between the jobs of a batch.
func (a *attempt) run(stop, ctx context.Context, hold *lease.Hold) {
	claim, stats := a.claim, &a.crew.worker.stats
	stats.claims.Add(int64(len(claim)))
	stats.missed.Add(int64(len(claim) - deal(claim, hold)))
	if hold == nil {
		a.overLimit()
		claim[0].outcome.NextLocked = a.holder.Missed() == lease.NextLocked
		return
	}
	if claim[0].turn.HasSlot() {
		a.crew.turns.Under(hold.Queue)
	}
	a.queue = a.crew.set.queues[hold.Queue]
	lost, err := a.holder.Lost(ctx)
	if err != nil || a.holder.Closed() { // or it was lost beside a hook, and the groups may be others' by now
		a.unbegun(ctx, claim, lost)
		return
	}
	switch {
	case len(lost) > 0: // before anything else: the evidence is gone when this transaction ends
		a.lost(lost)
		return
	case stop.Err() != nil: // given back
		return
	case hold.Paused:
		claim[hold.N].outcome.Paused = true
		return
	case hold.DueIn > 0:
		claim[hold.N].outcome.DueIn = hold.DueIn
		return
	case hold.Suspect && !claim[hold.N].turn.SuspectAllowed(): // claimed again when it may be: no session has it
		p := &claim[hold.N]
		a.now, p.alone, p.outcome = true, true, schedule.Outcome{More: true, Untried: true}
		return
	case a.overtakes():
		a.now = true
		goOn(claim)
		return
	case a.queue.blocks(&hold.Held): // no other job is in the claim: one that has failed is claimed alone
		a.fail(a.task(&hold.Held), usedUp, 0)
		return
	}
	switch err := a.mark(ctx); {
	case errors.Is(err, lease.ErrLost):
		a.unbegun(ctx, claim, nil)
		return
	case errors.Is(err, lease.ErrPaused):
		goOn(claim) // the next claim finds out what is paused
		return
	case err != nil: // mark has said what becomes of the group
		return
	case stop.Err() != nil && !hold.GroupSlot: // marking may take long; with a GroupSlot, a marked job has started
		return
	}
	a.crew.turns.Started(claim[hold.N].turn, hold.ID, hold.More, hold.Suspect)
	a.ran = true
	a.begun++
	goOn(claim) // unless its handler runs, and says something else
	tasks := append(make([]task, 0, 1+len(hold.Rest)), a.task(&hold.Held))
	a.results = slices.Grow(a.results, cap(tasks))
	for i := range hold.Rest {
		tasks = append(tasks, a.task(&hold.Rest[i]))
	}
	if a.queue.BatchHandler != nil {
		a.handleSlice(ctx, tasks)
		a.answered(a.results)
	} else {
		a.handleEach(stop, ctx, tasks)
	}
}

// task returns a job that the claim has.
func (a *attempt) task(h *lease.Held) task {
	return task{newJob(h, a.queue.maxAttempts(h)), &a.claim[h.N], h}
}

// overtakes reports whether a head that is held may have overtaken another job of its group.
func (a *attempt) overtakes() bool {
	return slices.ContainsFunc(a.claim, func(p place) bool {
		return p.held != nil && a.crew.turns.Overtakes(p.turn, p.held.ID)
	})
}

// overLimit says so if that is why nothing was claimed.
func (a *attempt) overLimit() {
	if a.holder.Missed() != lease.OverLimit {
		return
	}
	a.crew.turns.Over(a.claim[0].turn.Queue)
	for i := range a.claim {
		a.claim[i].outcome.Over = true
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
func (a *attempt) lost(lost []*lease.Held) {
	a.now = true
	goOn(a.claim)
	for _, h := range lost {
		t := a.task(h)
		a.doing.Store(t.job)
		a.fail(t, &failure{kind: KindLost, err: diedError{}}, a.delay(t, diedError{}))
	}
}

// mark durably marks the attempts that are about to begin, if they need it: a lane's first ones, so that a job that
// kills its worker at each start is counted; those of jobs that have failed or were lost before; and all where several
// jobs of a group may run. After an error they do not begin. Marking may take long: ErrLost says that the lane does not
// hold them any more, ErrPaused that they are paused by now.
func (a *attempt) mark(ctx context.Context) error {
	var heads []*lease.Held
	for i := range a.claim {
		if h := a.claim[i].held; h != nil && (a.begun < tuning.Many || h.Attempts > 0 || h.GroupSlot) {
			heads = append(heads, h)
		}
	}
	if len(heads) == 0 {
		return nil
	}
	err := a.holder.Mark(ctx, heads)
	switch {
	case errors.Is(err, lease.ErrLost), a.holder.HungUp():
		return lease.ErrLost
	case err == nil, errors.Is(err, lease.ErrPaused):
		return err
	}
	if heads[0].GroupSlot { // a claim of one job, and only its mark would tell of its death
		a.crew.trouble(heads[0].Key, err)
		a.claim[0].outcome = schedule.Outcome{Trouble: true}
		return err
	}
	a.crew.log.Warn("pgfifo: attempt not marked", "queue", heads[0].Queue, "group", heads[0].GroupID, "error", err)
	return nil // the locks alone tell of a crash then, as they do of most jobs
}

// times returns n times d, or the longest Duration if that is less.
func times(n int, d time.Duration) time.Duration {
	if d > math.MaxInt64/time.Duration(n) {
		return math.MaxInt64
	}
	return time.Duration(n) * d
}

// delay returns how long the group waits before the next attempt.
func (a *attempt) delay(t task, err error) time.Duration {
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
		its := *t.job
		if givenBack { // Unavailable
			its.Attempts, most = its.Attempts+a.crew.turns.Unavailable(t.place.turn), maxUnavailable
		}
		after = a.backoff(its, err)
	}
	return min(max(after, least), most)
}

// backoff asks the queue's Retry, which is the user's code: it may take its time, panic, or end its goroutine. After a
// panic or such an end the default is used.
func (a *attempt) backoff(job Job, err error) time.Duration {
	d := DefaultRetry(&job, err)
	job.Headers = maps.Clone(job.Headers)
	a.holder.Lane().Aside(func() {
		a.crew.worker.Client.hooks.guardLane("Retry", func() { d = a.queue.Retry(&job, err) })
	})
	return d
}

// diedError is the failure of a lost attempt, as the worker that finds it records it.
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

// oneByOne makes the jobs of a failed batch run again one by one.
func (a *attempt) oneByOne() {
	a.now = true
	for i := range a.results {
		r := &a.results[i]
		r.place.upTo = r.job.ID
		r.place.alone = r.place != a.results[0].place || r.place != a.results[len(a.results)-1].place
	}
}

// leave adds the call that deletes the rows of groups that were made for one job each, together with their jobs. There
// may be as many such groups as jobs, and nobody else deletes them as fast.
func (a *attempt) leave(done []task) {
	var own []string
	for _, t := range done {
		if isOwnGroup(t.job.GroupID) && !t.held.GroupSlot { // Collect deletes those, with their slots
			own = append(own, t.job.GroupID)
		}
	}
	if len(own) > 0 {
		args := [][]byte{[]byte(done[0].job.Queue), array.Of(own, array.Text)}
		a.calls = append(a.calls, lease.Call{Statement: leaveStmt, Args: args})
	}
}

// fail adds the call that settles an attempt that failed or is not counted: it is made again after delay, or the job
// becomes a dead letter.
func (a *attempt) fail(t task, f *failure, delay time.Duration) {
	r := a.add(result{task: t, failure: f, delayKnown: true, delay: delay})
	a.calls, a.charged = append(a.calls, a.failCall(r)), append(a.charged, t)
	t.place.failed(r, t.held.More)
}

var (
	snoozeStmt = settles("snooze")
	retryStmt  = settles("retry")
)

// failCall returns the call that records a failed attempt, and sets the outcome of the result.
func (a *attempt) failCall(r *result) lease.Call {
	job, f := r.job, r.failure
	args := append(keyArgs(job), strconv.AppendInt(nil, int64(job.Attempts), 10))
	us := strconv.AppendInt(nil, r.delay.Microseconds(), 10)
	if uncounted(f.err) {
		r.outcome = Snoozed
		return lease.Call{Statement: snoozeStmt, Args: append(args, us), Job: job.ID}
	}
	how := [][]byte{
		[]byte(f.kind), []byte(scrub(textOf(f.err), maxErrorBytes)), []byte(scrub(f.stack, maxStackBytes)),
		[]byte(a.crew.set.name), []byte(strconv.Itoa(maxFailures)),
	}
	if job.Attempt() >= job.MaxAttempts || IsDeadLetter(f.err) {
		return a.queue.giveUpCall(r, args, how)
	}
	r.outcome = Retried
	return lease.Call{Statement: retryStmt, Args: append(append(args, us), how...), Job: job.ID}
}

func keyArgs(job *Job) [][]byte {
	return append(make([][]byte, 0, 10), []byte(job.Queue), []byte(job.GroupID), strconv.AppendInt(nil, job.ID, 10))
}
