package fifo

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// A redialer waits between attempts to get a connection back.
type redialer struct {
	log   *slog.Logger
	who   string
	last  *atomic.Pointer[setback] // the error that it waited for last
	pause time.Duration            // the next one, before its random part
	quiet bool                     // who has just logged the same says it for all
}

// A setback is an error of what is tried again and again.
type setback struct {
	err error
	at  time.Time
}

const (
	firstPause, longestPause = 20 * time.Millisecond, 5 * time.Second
	quietFor                 = time.Second
)

func newRedialer(log *slog.Logger, who string, last *atomic.Pointer[setback]) *redialer {
	return &redialer{log: log, who: who, last: last}
}

func (r *redialer) reset() { r.pause = 0 }

// wait sleeps a little longer each time, up to 5 seconds, unless ctx ends.
func (r *redialer) wait(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if last := r.last.Load(); !r.quiet || last == nil || time.Since(last.at) > quietFor {
		r.log.Warn("pgfifo: trouble with the database; trying again", "who", r.who, "error", err)
	}
	r.last.Store(&setback{err, time.Now()})
	timer := time.NewTimer(r.next())
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// next returns the next pause, less a random part of up to a half: a server that goes down cuts off all lanes of all
// processes at once, and they are not to come back in step while it recovers.
func (r *redialer) next() time.Duration {
	r.pause = min(max(2*r.pause, firstPause), longestPause)
	return r.pause - time.Duration(rand.Int64N(int64(r.pause)/2+1))
}
