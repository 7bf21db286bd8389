package fifo

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// toldPerSecond is how many failed attempts a worker logs in a second. Where everything fails, the rest says nothing
// new.
const toldPerSecond = 10

// A teller logs failed attempts, so many a second. The zero value is ready.
type teller struct {
	mu       sync.Mutex
	second   time.Time // when it began
	told     int       // in it
	withheld int       // since the last that was told
}

// allow reports whether one more may be told now, and how many were withheld before it.
func (t *teller) allow(now time.Time) (ok bool, withheld int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.second) >= time.Second {
		t.second, t.told = now, 0
	}
	if t.told >= toldPerSecond {
		t.withheld++
		return false, 0
	}
	t.told++
	withheld, t.withheld = t.withheld, 0
	return true, withheld
}

// log tells of an attempt that has not succeeded. What is given back has not failed either: that is for debugging.
func (t *teller) log(ctx context.Context, log *slog.Logger, r *result) {
	level, what := slog.LevelWarn, "pgfifo: attempt failed"
	switch {
	case r.outcome == Buried:
		level, what = slog.LevelError, "pgfifo: dead letter"
	case r.outcome == Returned:
		level, what = slog.LevelDebug, "pgfifo: job given back"
	case r.outcome == Unknown:
		what = "pgfifo: attempt lost"
	case r.failure.kind == KindPanic:
		level = slog.LevelError
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attrs := []any{
		"queue", r.job.Queue, "group", r.job.GroupID, "job", r.job.ID, "attempt", r.job.Attempt(),
		"error", r.failure.err,
	}
	if r.failure.stack != "" {
		attrs = append(attrs, "stack", r.failure.stack)
	}
	if level != slog.LevelDebug {
		ok, withheld := t.allow(time.Now())
		if !ok {
			return
		}
		if withheld > 0 {
			attrs = append(attrs, "withheld", withheld)
		}
	}
	log.Log(ctx, level, what, attrs...)
}
