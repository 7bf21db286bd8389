package fifo

import "context"

// Hooks are called around the work, for logs, metrics and traces. Nil fields are skipped. They run in the caller's or
// the worker's goroutine, so they should be quick, and they must not panic.
type Hooks struct {
	// Enqueue is called before an enqueue. It returns the context to go on with, and what to call with the ids or
	// the error; either may be nil.
	Enqueue func(ctx context.Context, msgs []Message) (context.Context, func(ids []int64, err error))
	// Job is called before a handler, and what it returns right after it, with the handler's error: the attempt's
	// outcome is not recorded yet. For a BatchHandler it is called for each job of the batch, in order.
	Job func(ctx context.Context, job *Job) (context.Context, func(err error))
	// Settled is called when the outcome of an attempt is committed, or is known to be lost. err is why, for all but
	// Succeeded. An attempt that died with another worker is settled by the one that finds it, as Retried or Buried,
	// with an err that is ErrLost.
	Settled func(ctx context.Context, job *Job, outcome Outcome, err error)
}

// An Outcome is what became of an attempt.
type Outcome int

const (
	Succeeded Outcome = iota // the job is done and gone
	Retried                  // the attempt failed; the job is tried again in its place
	Buried                   // the attempt failed and the job is a dead letter
	Returned                 // the job is back in its place and no attempt is counted: the worker stops, or its batch failed
	Unknown                  // the connection broke: if the job is still there, the next worker counts a lost attempt
)

func (o Outcome) String() string {
	switch o {
	case Succeeded:
		return "succeeded"
	case Retried:
		return "retried"
	case Buried:
		return "buried"
	case Returned:
		return "returned"
	default:
		return "unknown"
	}
}

func (h *Hooks) enqueue(ctx context.Context, msgs []Message) (context.Context, func([]int64, error)) {
	done := func([]int64, error) {}
	if h.Enqueue == nil {
		return ctx, done
	}
	hooked, after := h.Enqueue(ctx, msgs)
	if hooked != nil {
		ctx = hooked
	}
	if after != nil {
		done = after
	}
	return ctx, done
}

func (h *Hooks) settled(ctx context.Context, job *Job, outcome Outcome, err error) {
	if h.Settled != nil {
		h.Settled(ctx, job, outcome, err)
	}
}
