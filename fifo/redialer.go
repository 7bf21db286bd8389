package fifo

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
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
	lanes  func() int                 // how many lanes have no connection; only for a lane's
	failed int                        // attempts that failed in a row
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

// wait logs the error, once a second if there is a limiter, and sleeps a little longer each time, unless ctx ends.
func (r *redialer) wait(ctx context.Context, err error, limit *limiter) {
	if ctx.Err() != nil {
		return
	}
	err = eachLineOnce(err)
	if limit == nil || limit.allow(1, nil) {
		attrs := []any{"who", r.who}
		if limit != nil && r.lanes != nil {
			attrs = append(attrs, "lanes", r.lanes())
		}
		r.log.Warn("pgfifo: trouble with the database; trying again", append(attrs, "error", err)...)
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

// eachLineOnce returns err, or if lines of its text come again, an error with each of them once: pgx tries an address
// with TLS and without, and tells of both tries.
func eachLineOnce(err error) error {
	if err == nil {
		return nil
	}
	var lines []string
	all := strings.Split(err.Error(), "\n")
	for _, line := range all {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == len(all) {
		return err
	}
	return shortened{err, strings.Join(lines, "\n")}
}

// A shortened is an error with another text.
type shortened struct {
	error
	text string
}

func (s shortened) Error() string { return s.text }

func (s shortened) Unwrap() error { return s.error }
