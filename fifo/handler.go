package fifo

import (
	"context"
	"errors"
	"runtime/debug"
)

// A Handler works a job. If it returns nil the job is done, and what was written through job.Tx is committed with it.
// If it returns an error or panics, those writes are undone, and the job is tried again in its place, with the rest of
// its group waiting behind it.
//
// ctx ends when the worker gives up on the job, with ErrJobTimeout, ErrShutdown or ErrLost as its cause. Until the
// handler returns, its group stays taken.
type Handler interface {
	Handle(ctx context.Context, job *Job) error
}

// A HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job) error { return f(ctx, job) }

// JSON returns a Handler that decodes the payload from JSON into a T. A payload that does not decode becomes a dead
// letter at once: it will not get better. (A Message's Payload that is a string or []byte is sent as it is, not as a JSON
// string.)
func JSON[T any](f func(ctx context.Context, job *Job, payload T) error) Handler {
	return HandlerFunc(func(ctx context.Context, job *Job) error {
		var payload T
		if err := job.Decode(&payload); err != nil {
			return DeadLetter(err)
		}
		return f(ctx, job, payload)
	})
}

// call runs a handler and turns a panic into a PanicError. The handler has a goroutine of its own: runtime.Goexit, a
// test's FailNow say, ends the goroutine that calls it, whatever is deferred, and would take the lane with it.
func call(handler func() error) error {
	result := make(chan error, 1)
	go func() {
		err, returned := error(nil), false
		defer func() {
			if !returned {
				v := recover()
				if v == nil {
					v = errors.New("the handler's goroutine exited")
				}
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			result <- err
		}()
		if err = handler(); err != nil {
			_, _ = err.Error(), errors.Is(err, ErrNoJob) // if these panic (on a typed nil, say), then here
		}
		returned = true
	}()
	return <-result
}
