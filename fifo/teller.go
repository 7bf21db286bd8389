package fifo

import (
	"context"
	"errors"
	"log/slog"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A teller logs up to tuning.Many failed attempts a second. Where everything fails, the rest says nothing new: it is
// counted. Each level has a limit of its own: retries do not push out dead letters. The zero value is ready.
type teller struct {
	errors, warnings limiter
	rollbacks        limiter // of handlers that have returned nil
}

// end logs the counts that are not logged yet, and waits, briefly, for one that is being logged.
func (t *teller) end(log *slog.Logger) {
	briefly(func() {
		t.errors.count(log, slog.LevelError)
		t.warnings.count(log, slog.LevelWarn)
	})
}

// briefErr returns err, or one with the beginning of its text if that is longer than what a Failure keeps.
func briefErr(err error) error {
	if text := textOf(err); len(text) > maxErrorBytes {
		return errors.New(scrub(text, maxErrorBytes))
	}
	return err
}

// forgone tells of a job that is to be completed without what its handler has written.
func (t *teller) forgone(log *slog.Logger, job *Job) {
	if t.rollbacks.allow(tuning.Many, nil) { // others are not counted: they say the same
		log.Warn("pgfifo: handler rolled back what it wrote, and returned nil",
			"queue", job.Queue, "group", job.GroupID, "job", job.ID, "attempt", job.Attempt())
	}
}

// log tells of an attempt that has not succeeded. What is given back has not failed either: that is for debugging.
func (t *teller) log(ctx context.Context, log *slog.Logger, r *result) {
	level, what := slog.LevelWarn, "pgfifo: attempt failed"
	switch {
	case r.outcome == Buried && r.moved != "":
		level, what = slog.LevelError, "pgfifo: job moved to its dead letter queue"
	case r.outcome == Buried:
		level, what = slog.LevelError, "pgfifo: dead letter"
	case r.outcome == Blocked:
		level, what = slog.LevelError, "pgfifo: group blocked"
	case r.outcome == Discarded:
		level, what = slog.LevelError, "pgfifo: job discarded"
	case r.outcome == Returned:
		level, what = slog.LevelDebug, "pgfifo: job given back"
	case r.outcome == Snoozed && IsUnavailable(r.failure.err):
		what = "pgfifo: unavailable, job snoozed"
	case r.outcome == Snoozed:
		level, what = slog.LevelDebug, "pgfifo: job snoozed"
	case r.outcome == Unknown:
		what = "pgfifo: attempt lost"
	case r.failure.kind == KindPanic:
		level = slog.LevelError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	of := &t.warnings
	if level == slog.LevelError {
		of = &t.errors
	}
	if level != slog.LevelDebug && !of.allow(tuning.Many, func() { of.count(log, level) }) {
		return
	}
	attrs := []any{
		"queue", r.job.Queue, "group", r.job.GroupID, "job", r.job.ID, "attempt", r.job.Attempt(),
		"error", briefErr(r.failure.err),
	}
	if r.outcome == Buried && r.moved != "" {
		attrs = append(attrs, "to", r.moved)
	}
	if r.failure.stack != "" {
		attrs = append(attrs, "stack", r.failure.stack)
	}
	log.Log(ctx, level, what, attrs...)
}
