package fifo

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A redialer waits between attempts to get a connection back.
type redialer struct {
	log    *slog.Logger
	who    string
	last   *atomic.Pointer[setback]   // the error that it waited for last
	lost   *atomic.Pointer[time.Time] // when there was no connection last; nil: nobody asks
	failed int                        // attempts that failed in a row
	quiet  bool                       // who has just logged the same says it for all
}

// A setback is an error of what is tried again and again.
type setback struct {
	err error
	at  time.Time
}

// lose notes that there is no connection now.
func (r *redialer) lose() {
	if r.lost != nil {
		now := time.Now()
		r.lost.Store(&now)
	}
}

// wait sleeps a little longer each time, unless ctx ends.
func (r *redialer) wait(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if last := r.last.Load(); !r.quiet || last == nil || time.Since(last.at) > tuning.Wait {
		r.log.Warn("pgfifo: trouble with the database; trying again", "who", r.who, "error", err)
	}
	r.last.Store(&setback{err, time.Now()})
	_ = pause.For(ctx, r.next())
}

// next returns the next pause, less a random part of up to a half: a server that goes down cuts off all lanes of all
// processes at once, and they are not to come back in step while it recovers.
func (r *redialer) next() time.Duration {
	r.failed++
	wait := rest.Nth(r.failed, tuning.Rest, tuning.Grace)
	return wait - time.Duration(rand.Int64N(int64(wait)/2+1))
}
