package fifo

import (
	"errors"
	"time"
)

// minSnooze is the shortest time that a job is given back for: one that is not counted must not run without a pause.
const minSnooze = 100 * time.Millisecond

// Snooze wraps the error that a handler returns: the job is given back, to run after d at the earliest, and no attempt
// is counted, however often. Its group waits. What the handler wrote through the job's transaction is undone. For what
// is nobody's fault, and passes: a quota that is used up, a time at which nothing may be sent, an endpoint of one
// tenant's that is down. If what all jobs of the queue depend on is down, see Unavailable.
//
// d is at least a tenth of a second and at most MaxDelay: a d outside that counts as the nearer bound. A nil err stands
// for "snoozed". In a BatchError it is for the jobs that this names. A BatchHandler that returns it without a
// BatchError snoozes the first job of each group of the batch: what it wrote is undone, and nothing runs again one at a
// time. If the error also says DeadLetter, that wins. A panic with it is a panic.
func Snooze(d time.Duration, err error) error { return newVerdict[snooze](err, "snoozed", d) }

// AsSnooze reports whether an error says Snooze, and for how long: the d that Snooze was given. It is for the tests of
// a handler.
func AsSnooze(err error) (d time.Duration, ok bool) { return verdictOf[snooze](err) }

// uncounted reports whether an error gives the job back, and neither a DeadLetter nor a panic has the last word.
func uncounted(err error) bool {
	_, snoozed := AsSnooze(err)
	return (snoozed || IsUnavailable(err)) && !IsDeadLetter(err) && !errors.As(err, new(*PanicError))
}
