package fifo

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A limiter bounds how many lines that say the same are logged in a second. The zero value is ready.
type limiter struct {
	mu       sync.Mutex
	over     time.Time // the end of the present second
	told     int       // in it
	withheld int       // and not counted in the log yet

	counting sync.Mutex // held while the count is logged
}

// allow reports whether one more line may be logged now; most may be in a second. After the first one that it refuses,
// count is called at the end of the second, unless count is nil.
func (l *limiter) allow(most int, count func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if !now.Before(l.over) {
		l.over, l.told = now.Add(time.Second), 0
	}
	if l.told < most {
		l.told++
		return true
	}
	if l.withheld++; l.withheld == 1 && count != nil {
		time.AfterFunc(l.over.Sub(now), count)
	}
	return false
}

// count logs how many were withheld, if any were.
func (l *limiter) count(log *slog.Logger, level slog.Level) {
	l.counting.Lock()
	defer l.counting.Unlock()
	l.mu.Lock()
	n := l.withheld
	l.withheld = 0
	l.mu.Unlock()
	if n > 0 {
		log.Log(context.Background(), level, "pgfifo: failures withheld", "count", n)
	}
}
