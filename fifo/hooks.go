package fifo

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"
)

// Hooks are called around the work of all workers of a Client, for logs, metrics and traces. Nil fields are skipped.
// The enqueue and the lane wait for them, except for Overdue, so they should be quick. A panic in a hook does not
// spread: before an enqueue or a handler it is the error of that; after it, it is logged, and changes nothing.
type Hooks struct {
	// Enqueue is called before an enqueue, in the caller's goroutine. It may change the messages: they are copies, and
	// their Headers are not nil. It returns the context to go on with, and what to call with the receipts, of which
	// each hook has a copy, or the error; either may be nil. What is enqueued in a transaction of the caller's is not
	// committed then. If it panics nothing is enqueued, and the error is a *PanicError.
	Enqueue func(ctx context.Context, msgs []Message) (context.Context, func(receipts []Receipt, err error))
	// Job is called before a handler, and what it returns right after it, with the handler's error: the attempt's
	// outcome is not recorded yet. For a BatchHandler it is called for each job of the batch, in order, and what it
	// returned in the opposite order. It runs in the handler's goroutine, and its time counts as the handler's. If it
	// panics the handler is not called, and the attempt fails as if the handler had panicked.
	Job func(ctx context.Context, job *Job) (context.Context, func(err error))
	// Settled is called when the outcome of an attempt is committed, or is known to be lost. err is why, for all but
	// Succeeded. An attempt that died with another worker is settled by the one that finds it, as one that has failed,
	// with an err for which errors.Is(err, ErrLost) is true. Its ctx does not end, and has the values of the one that
	// Job returned for that attempt, if a handler ran: also if that was abandoned, unless Job has not returned yet. The
	// lane waits for the hook. After 50 ms it gives back the group that it has claimed next, and other lanes may take
	// the one that it has worked: calls for jobs of one group may overlap then.
	Settled func(ctx context.Context, job *Job, outcome Outcome, err error)
	// Overdue is called while a handler goes on although its context has ended: late ago, with the given cause
	// (ErrJobTimeout, ErrShutdown, ErrCanceled, ErrLost). It comes after 1, 2, 4, ... seconds, and then once a minute;
	// a call waits for the one before. It does not come when the handler is abandoned: Settled is told that, with
	// ErrAbandoned. The job is a copy without a transaction. For a BatchHandler it is called for each job of the batch.
	Overdue func(ctx context.Context, job *Job, late time.Duration, cause error)
}

// An Outcome is what became of an attempt.
type Outcome int

const (
	Succeeded Outcome = iota // the job is done and gone
	Retried                  // the attempt failed; the job is tried again in its place
	Buried                   // the attempt failed and the job is a dead letter, or in the DeadLetterQueue
	Returned                 // the job is back in place, no attempt counted: see Stats.Returned
	Snoozed                  // the handler has given the job back until later, no attempt counted
	Blocked                  // the job blocks its group: its attempts are used up, or see JSON; see BlockGroup
	Discarded                // the attempt failed, was the last one, and the job is gone; see Discard
	Unknown                  // the connection broke: if the job is still there, the next worker counts a lost attempt
)

// recorded reports whether the job's row says what became of the attempt, or was removed because of it.
func (o Outcome) recorded() bool { return o != Succeeded && o != Returned && o != Unknown }

var outcomeWords = words[Outcome]{
	Succeeded: "succeeded", Retried: "retried", Buried: "buried", Returned: "returned", Snoozed: "snoozed",
	Blocked: "blocked", Discarded: "discarded", Unknown: "unknown",
}

var errInvalidOutcome = errors.New("fifo: invalid outcome")

func (o Outcome) String() string { return outcomeWords.of(o) }

// MarshalText returns what String does, for JSON and logs.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads what MarshalText writes, and returns an error for any other text.
func (o *Outcome) UnmarshalText(text []byte) error {
	return outcomeWords.read(text, o, errInvalidOutcome)
}

// hooks calls the Hooks of a Client.
type hooks struct {
	all []Hooks
	log *slog.Logger
}

// any reports whether some of the hooks are there.
func (c hooks) any(there func(Hooks) bool) bool { return slices.ContainsFunc(c.all, there) }

// enqueue calls the Enqueue hooks, and returns the context and the messages to go on with, and what to call in the
// end.
func (c hooks) enqueue(
	ctx context.Context, msgs []Message,
) (_ context.Context, _ []Message, end func([]Receipt, error), err error) {
	var ends []func([]Receipt, error)
	end = func(receipts []Receipt, err error) {
		for _, f := range slices.Backward(ends) {
			c.guard("end of the Enqueue hook", func() { f(slices.Clone(receipts), err) })
		}
	}
	copied := false
	for i := 0; i < len(c.all) && err == nil; i++ {
		hook := c.all[i].Enqueue
		if hook == nil {
			continue
		}
		if !copied {
			msgs, copied = slices.Clone(msgs), true
			for i := range msgs {
				msgs[i].Headers = maps.Clone(msgs[i].Headers)
			}
		}
		for i := range msgs { // the hook before may have set none
			if msgs[i].Headers == nil {
				msgs[i].Headers = make(Headers)
			}
		}
		catch(&err, "Enqueue hook", func() error {
			hooked, after := hook(ctx, msgs)
			if hooked != nil {
				ctx = hooked
			}
			if after != nil {
				ends = append(ends, after)
			}
			return nil
		})
	}
	return ctx, msgs, end, err
}

// job calls the Job hooks until one fails, and returns the context to go on with. It adds what to call in the end
// to ends. It sets err, rather than returning it, because a hook may end the goroutine.
func (c hooks) job(ctx context.Context, job *Job, ends *[]func(error), err *error) context.Context {
	for i := 0; i < len(c.all) && *err == nil; i++ {
		hook := c.all[i].Job
		if hook == nil {
			continue
		}
		catch(err, "Job hook", func() error {
			hooked, end := hook(ctx, job)
			if hooked != nil {
				ctx = hooked
				job.hooked.Store(&hooked)
			}
			if end != nil {
				*ends = append(*ends, end)
			}
			return nil
		})
	}
	return ctx
}

// settled calls the Settled hooks for each result, from the nth call on: a hook may end its goroutine.
func (c hooks) settled(ctx context.Context, results []result, n *int) {
	for *n < len(results)*len(c.all) {
		r, h := &results[*n/len(c.all)], &c.all[len(c.all)-1-*n%len(c.all)]
		*n++
		if h.Settled != nil {
			c.guard("Settled", func() { h.Settled(r.context(ctx), r.job, r.outcome, r.why()) })
		}
	}
}

// overdue tells the log and the Overdue hooks.
func (c hooks) overdue(ctx context.Context, jobs []*Job, late time.Duration) {
	cause := context.Cause(ctx)
	logLate(c.log, "pgfifo: handler ignores the end of its context", jobs[0], int64(len(jobs)),
		late.Round(time.Millisecond), cause)
	for _, h := range c.all {
		for i := 0; i < len(jobs) && h.Overdue != nil; i++ {
			c.guardLane("Overdue", func() { h.Overdue(context.WithoutCancel(ctx), jobs[i], late, cause) })
		}
	}
}

func logLate(log *slog.Logger, what string, job *Job, jobs int64, late time.Duration, cause error) {
	log.Error(what, "queue", job.Queue, "group", job.GroupID, "job", job.ID, "attempt", job.Attempt(),
		"jobs", jobs, "late", late, "cause", cause)
}

// untilReturned calls f, and closes done when it has returned. If f ends its goroutine, it is called again in another.
func untilReturned(f func(), done chan<- struct{}) {
	returned := false
	defer func() {
		if returned {
			close(done)
		} else {
			go untilReturned(f, done)
		}
	}()
	f()
	returned = true
}

// context returns that of the Job hook, which does not end, or ctx if there is none.
func (r *result) context(ctx context.Context) context.Context {
	if r.job.hooked != nil {
		if hooked := r.job.hooked.Load(); hooked != nil {
			return context.WithoutCancel(*hooked)
		}
	}
	return ctx
}

// why returns why the attempt has not succeeded, or nil.
func (r *result) why() error {
	if r.failure == nil {
		return nil
	}
	return r.failure.err
}

// guard calls a hook that comes after the fact: its panic is logged.
func (c hooks) guard(hook string, f func()) {
	recovering(hook, f, func(p *PanicError) {
		c.log.Error("pgfifo: a hook panicked", "hook", hook, "panic", p.Value, "stack", string(p.Stack))
	})
}

// guardLane is guard for a lane, which must not end with a hook that ends its goroutine.
func (c hooks) guardLane(hook string, f func()) {
	<-finished(func() { c.guard(hook, f) })
}
