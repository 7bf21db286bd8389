package fifo

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgfifo/pgfifo/internal/rest"
)

// Backoff returns a Retry of a Worker or Queue that waits first after the first failure and twice as long after each
// further one, up to limit, less a random part of up to a fifth.
func Backoff(first, limit time.Duration) func(job *Job, err error) time.Duration {
	return func(job *Job, _ error) time.Duration {
		d := max(rest.Nth(max(job.Attempt(), 1), first, limit), 0)
		return d - time.Duration(rand.Int64N(int64(d)/5+1))
	}
}

// DefaultRetry is the Retry of a Worker that has none: Backoff from a second up to 5 minutes. A job whose first attempt
// was lost with its worker is tried again at once, because most often the worker is at fault and not the job. A Retry
// of your own is asked about such a job as well, with ErrLost, so it can let a job that kills its workers wait.
func DefaultRetry(job *Job, err error) time.Duration {
	if job.Attempt() == 1 && errors.Is(err, ErrLost) {
		return 0
	}
	return defaultBackoff(job, err)
}

var defaultBackoff = Backoff(time.Second, 5*time.Minute)

// DefaultMaxAttempts is how often a job is tried if neither the message nor the worker says how often. With
// DefaultRetry a group waits for up to eight and a half minutes before its head becomes a dead letter.
const DefaultMaxAttempts = 10

// RetryAfter wraps the error that a handler returns: the next attempt is made after d, at most MaxDelay, whatever
// Worker.Retry says. It counts as an attempt all the same. A nil err stands for "retry later".
func RetryAfter(d time.Duration, err error) error {
	return newVerdict[retryAfter](err, "retry later", d)
}

// AsRetryAfter reports whether an error says RetryAfter, and how long: for the tests of a handler.
func AsRetryAfter(err error) (d time.Duration, ok bool) { return verdictOf[retryAfter](err) }

// DeadLetter wraps the error that a handler returns: the job becomes a dead letter at once, whatever attempts it has
// left. A nil err stands for "given up".
func DeadLetter(err error) error { return newVerdict[deadLetter](err, "given up", 0) }

// IsDeadLetter reports whether an error says DeadLetter, as that of JSON does about a payload that does not decode: for
// the tests of a handler.
func IsDeadLetter(err error) bool { return says[deadLetter](err) || says[undecodable](err) }

const (
	maxErrorBytes = 4 << 10
	maxStackBytes = 16 << 10
	maxFailures   = 50 // kept per job: the latest
)

// scrub makes a text storable: valid UTF-8, no NUL, no longer than limit. Recording a failure must not fail. What
// cannot be stored becomes longer, so the text is cut behind that, too.
func scrub(s string, limit int) string {
	const more = "…"
	long := len(s) > limit
	s = strings.ReplaceAll(strings.ToValidUTF8(s[:min(len(s), limit)], "\uFFFD"), "\x00", "\uFFFD")
	if !long && len(s) <= limit {
		return s
	}
	cut := min(len(s), limit-len(more))
	for cut > 0 && cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + more
}

// storable reports whether PostgreSQL can have s as a text.
func storable(s string) bool { return utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 }
