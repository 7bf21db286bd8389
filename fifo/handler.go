package fifo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
)

// A Handler works a job. If it returns nil the job is done, and what was written through job.Tx is committed with it.
// If it returns an error or panics, those writes are undone, and the job is tried again in its place, with the rest of
// its group waiting behind it.
//
// ctx ends when the worker gives up on the job, with ErrJobTimeout, ErrShutdown, ErrCanceled or ErrLost as its cause.
// Until the handler returns, its group stays taken and its lane is busy: return soon. A handler that goes on for a
// second is overdue. The worker logs that as an error and calls Hooks.Overdue, again and again; with
// Worker.AbandonAfter it gives the job up. A nil that is returned after the end of ctx is a success like any other,
// unless the job was lost or given up by then.
type Handler func(ctx context.Context, job *Job) error

// JSON returns a Handler that decodes the payload from JSON into a T. A job whose payload does not decode becomes a
// dead letter at once: it will not get better. In a queue with BlockGroup it blocks its group instead, at once, too. (A
// Message's Payload that is a string or []byte is sent as it is, not as a JSON string.) Fields that T does not have are
// passed over: see StrictJSON.
func JSON[T any](f func(ctx context.Context, job *Job, payload T) error) Handler {
	return decoding(f, (*Job).Decode)
}

// StrictJSON is JSON for producers and workers that are to agree: a payload with a field that T does not have does not
// decode. Deploy workers before the producers of a new field, then, and redrive what was too early.
func StrictJSON[T any](f func(ctx context.Context, job *Job, payload T) error) Handler {
	return decoding(f, (*Job).decodeStrictly)
}

func decoding[T any](f func(context.Context, *Job, T) error, decode func(*Job, any) error) Handler {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, job *Job) error {
		var payload T
		if err := decode(job, &payload); err != nil {
			return newVerdict[undecodable](err, "", 0)
		}
		return f(ctx, job, payload)
	}
}

// start runs a handler of the given jobs, with the Job hooks around it, and returns where its error will be. They run
// in a goroutine of their own, because the lane must survive whatever they do: runtime.Goexit, a test's FailNow say,
// ends the goroutine that calls it, and a handler that does not return is left behind in it.
func (c hooks) start(
	ctx context.Context, jobs []*Job, handler func(context.Context, []*Job) error,
) <-chan error {
	result := make(chan error, 1)
	go func() {
		var err error
		defer func() { result <- err }()
		worker := ctx
		var ends []func(error)
		defer func() {
			for _, end := range slices.Backward(ends) {
				c.guard("end of the Job hook", func() { end(err) })
			}
		}()
		for i := 0; i < len(jobs) && err == nil; i++ {
			ctx = c.job(ctx, jobs[i], &ends, &err)
		}
		if err == nil && worker.Err() != nil { // it stops, or a hook took too long: the job may be another's by now
			err = context.Cause(worker)
		}
		if err == nil {
			catch(&err, "handler", func() error { return handler(ctx, jobs) })
		}
	}()
	return result
}

// catch calls f, and sets err to what it returns, or to a PanicError. If f ends its goroutine, catch does not return,
// and err is set all the same. After that its methods may be called anywhere, except Error: see textOf.
func catch(err *error, who string, f func() error) {
	recovering(who, func() {
		*err = f()
		try(err)
	}, func(p *PanicError) {
		*err = p
		try(err)
	})
}

// recovering calls f. If that panics or ends its goroutine, it calls failed.
func recovering(who string, f func(), failed func(*PanicError)) {
	returned := false
	defer func() {
		if !returned {
			failed(newPanicError(who, recover()))
		}
	}()
	f()
	returned = true
}

// try calls the methods of an error once, here, where one that panics (on a typed nil, say) does no harm. It replaces
// such an error, and such reasons of a BatchError, and reports whether it did.
func try(err *error) (replaced bool) {
	if *err == nil {
		return false
	}
	given, usable := *err, false
	defer func() {
		if !usable {
			*err, replaced = unusable(given, recover()), true
		}
	}()
	batch, _ := batchError(given)
	if named := tryReasons(batch); named != nil {
		*err, replaced = named, true
	}
	tryMethods(*err)
	usable = true
	return replaced
}

// tryReasons returns a copy of a BatchError without the reasons that had to be replaced, or nil if none had to be.
func tryReasons(e BatchError) (replaced BatchError) {
	for id, err := range e {
		if !try(&err) {
			continue
		}
		if replaced == nil {
			replaced = maps.Clone(e)
		}
		replaced[id] = err
	}
	return replaced
}

// errNone is in no error.
var errNone = errors.New("fifo: none")

// tryMethods does all that is done with a failure. The search for errNone looks at all, because it finds nothing.
func tryMethods(err error) {
	_ = err.Error()
	_, _ = AsRetryAfter(err)
	_ = IsDeadLetter(err)
	_, _ = AsSnooze(err)
	_ = IsUnavailable(err)
	for _, target := range []error{ErrLost, ErrAbandoned, errNone} {
		_ = errors.Is(err, target)
	}
	_ = newFailure(err, nil, 0)
}

// textOf returns the text of an error, or says that its method panics, as package fmt does: what it tells of may have
// ended since try asked it.
func textOf(err error) string { return fmt.Sprint(err) }

// unusable returns an error in place of one whose methods panicked with why, while the stack is still there.
func unusable(err error, why any) *PanicError {
	if p, ok := err.(*PanicError); ok && p != nil { //nolint:errorlint // itself: its Value is to blame
		return &PanicError{Value: fmt.Errorf("%T, whose methods panic", p.Value), Stack: p.Stack, who: p.who}
	}
	text := fmt.Sprintf("a %T", why)
	if bug, ok := why.(runtime.Error); ok { // the text of other values may not be asked for: it may panic, too
		text = bug.Error()
	}
	return newPanicError("method of an error", fmt.Errorf("%T: %s", err, text))
}
