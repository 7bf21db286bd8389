package fifo

import (
	"errors"
	"time"
)

// A verdict is what a handler's error says of its job, besides why it failed. V is the kind of verdict.
type verdict[V any] struct {
	err   error
	after time.Duration // of those that have one
}

// Kinds of verdicts.
type (
	retryAfter  struct{}
	snooze      struct{}
	unavailable struct{}
	deadLetter  struct{}
	undecodable struct{} // treated as a DeadLetter, but no handler has said so
)

// newVerdict returns a verdict around an error, or around text if that is nil.
func newVerdict[V any](err error, text string, after time.Duration) error {
	if err == nil {
		err = errors.New(text)
	}
	return &verdict[V]{err, after}
}

func (v *verdict[V]) Error() string { return v.err.Error() }
func (v *verdict[V]) Unwrap() error { return v.err }

// around returns a reason with this verdict. One that has a verdict of the kind is returned as it is.
func (v *verdict[V]) around(reason error) error {
	if says[V](reason) {
		return reason
	}
	return &verdict[V]{reason, v.after}
}

// verdictOf reports whether an error has a verdict of the kind, and its time.
func verdictOf[V any](err error) (after time.Duration, says bool) {
	v := (*verdict[V])(nil)
	if says = errors.As(err, &v); v != nil {
		after = v.after
	}
	return after, says
}

// says is verdictOf without the time.
func says[V any](err error) bool {
	_, says := verdictOf[V](err)
	return says
}
