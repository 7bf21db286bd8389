package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A rival is another queue in the same database, with jobs that carry a number.
type rival interface {
	name() string
	prepare(ctx context.Context) error     // makes its tables
	fill(ctx context.Context, n int) error // adds n jobs in its fastest way, numbers going on from the last
	// run works jobs, calling handle with each job's number (from many goroutines), for as long as meanwhile takes.
	run(ctx context.Context, handle func(number int64), meanwhile func(context.Context) error) error
}

// drainRival has a rival work n jobs, from the start of the first to the start of the last: what it still has to commit
// then is not counted against it. Each number must come up; one that comes twice counts once. Nobody else is to fill
// the rival. A drain that is not done within the limit, if there is one, is stopped then, and its time is what n jobs
// would have taken: some take minutes.
func drainRival(db *database, r rival, limit time.Duration) workFunc {
	var filled int64
	return func(ctx context.Context, n int) (took time.Duration, err error) {
		l := newRoll(filled, n)
		filled += int64(n)
		if err := r.fill(ctx, n); err != nil {
			return 0, fmt.Errorf("fill: %w", err)
		}
		if err := db.flush(ctx); err != nil {
			return 0, err
		}
		err = r.run(ctx, l.call, func(ctx context.Context) (err error) {
			took, err = l.wait(ctx, limit)
			return err
		})
		return took, err
	}
}

// A roll ticks off the numbers of one drain. The rest is a tally's.
type roll struct {
	*tally
	from   int64
	ticked []atomic.Bool
}

func newRoll(from int64, n int) *roll {
	return &roll{tally: newTally(n), from: from, ticked: make([]atomic.Bool, n)}
}

// call enters the start of a job.
func (l *roll) call(number int64) {
	i := number - l.from
	if i >= l.goal {
		l.fail(fmt.Errorf("number %d, and there are %d from %d", number, l.goal, l.from))
		return
	}
	if i < 0 || l.ticked[i].Swap(true) {
		return // again
	}
	now := time.Now().UnixNano()
	l.first.CompareAndSwap(0, now)
	l.last.Store(now)
	if l.count.Add(1) == l.goal {
		close(l.reached)
	}
}

// errNone is returned for a drain that was stopped before its first job.
var errNone = errors.New("no job in that time")

// wait waits for all numbers, or for the end of the limit, and returns how long they took, or would have taken.
func (l *roll) wait(ctx context.Context, limit time.Duration) (time.Duration, error) {
	errOver := errors.New("over")
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, errOver)
		defer cancel()
	}
	if err := l.tally.wait(ctx); err != nil && !errors.Is(err, errOver) {
		return 0, err
	}
	switch worked := l.count.Load(); worked {
	case l.goal:
		return l.took(), nil
	case 0:
		return 0, fmt.Errorf("%v: %w", limit, errNone)
	default:
		return time.Duration(float64(limit) * float64(l.goal) / float64(worked)), nil
	}
}

// openPool opens a pool beside the database's own, with its own limits.
func (d *database) openPool(ctx context.Context, least, most int) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	pc.MinConns, pc.MaxConns = int32(least), int32(most)
	return pgxpool.NewWithConfig(ctx, pc)
}
