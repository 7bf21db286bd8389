package fifo

import "github.com/pgfifo/pgfifo/internal/schedule"

// Unavailable wraps the error that a handler returns: what all jobs of the queue depend on is down. The job is given
// back and no attempt is counted, however long that lasts, as with Snooze. A nil err stands for "unavailable".
//
// If each group depends on something of its own, a tenant's endpoint say, return a plain error, RetryAfter or Snooze.
// Unavailable slows down the whole queue: a group whose endpoint is up waits behind each one whose endpoint is down,
// for up to 5 seconds: a minute for 12.
//
// The group waits as the queue's Retry says, but a tenth of a second at least, and 5 seconds at most. For Retry each
// time in a row counts as one more attempt, as far as this worker knows; Attempts does not grow. A RetryAfter or a
// Snooze around it, or in it, says how long instead.
//
// No attempt is counted after JobTimeout either. So return Unavailable for a call that was refused, or that has ended
// by a timeout of its own, and not for the end of the handler's context: a job that never ends in time would be tried
// for ever, its group behind it.
//
// The worker probes a queue when 5 of its groups have said so, and no job of it was done in between. (A call of a
// BatchHandler counts once.) Then it tries one job at a time, in no batch, and the other groups wait in line. What
// follows depends on the end of the probe:
//
//   - The handler returns no error: the queue has full speed again at once, in this worker. Others find out by their
//     own next probes.
//   - It says Unavailable: the worker pauses, for half a second first, then twice as long each time, up to 5 seconds.
//   - Another failure, a panic, a Snooze, or an attempt that is lost or given back says nothing of what was down: the
//     next probe follows at once.
//   - It has not ended after a minute: the next probe begins beside it.
//
// Jobs that ran when probing began go on, and say nothing either. Other queues do not wait, each worker probes for
// itself, and RunOne never does. See Stats.Probed.
//
// For a BatchHandler it is as with Snooze. If the error also says DeadLetter, that wins. A panic with it is a
// panic.
func Unavailable(err error) error { return newVerdict[unavailable](err, "unavailable", 0) }

// IsUnavailable reports whether an error says Unavailable: for the tests of a handler.
func IsUnavailable(err error) bool { return says[unavailable](err) }

// maxUnavailable bounds how long Retry lets a group wait. Probes come as often.
const maxUnavailable = schedule.MaxPause

// unavailable reports whether the job is given back because what it depends on is down.
func (r *result) unavailable() bool { return r.outcome == Snoozed && IsUnavailable(r.failure.err) }
