package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A Keeper holds groups for a process without a transaction, in one session: the lease of queues with
// Settings.SessionLease. The default one is that of a Lane.
//
// The package's documentation has the argument.
//
// Its methods are for any goroutine. Whoever made it closes it.
type Keeper struct {
	Dialer *Dialer
	// Lanes are for the jobs' transactions.
	Lanes *Lanes
	// Lost is told why a session has ended, unless it was closed. Required.
	Lost func(why error)

	opening singleflight.Group // of a session, for all who want it meanwhile

	mu     sync.Mutex
	now    *session // the last one
	stop   func()   // ends the last opening
	failed int      // openings, one after the other
	closed bool

	done, others gathering // settle jobs whose handlers had no transaction: those that are done, and all others
	slow         slowSet
}

// NewKeeper returns one with n lanes for the jobs' transactions. Nothing is dialed yet.
func NewKeeper(d *Dialer, n int, lost func(why error)) *Keeper {
	k := &Keeper{Dialer: d, Lanes: NewLanes(d, n), Lost: lost}
	k.done = gathering{lanes: NewLanes(d, 1), by: completeAll, slow: &k.slow}
	k.others = gathering{lanes: NewLanes(d, 1), by: callEach, slow: &k.slow}
	return k
}

// Dials returns the functions that open its connections, one for each.
func (k *Keeper) Dials() []func(context.Context) error {
	dials := []func(context.Context) error{k.Connect}
	for _, some := range []*Lanes{k.done.lanes, k.others.lanes, k.Lanes} {
		for range cap(some.free) {
			dials = append(dials, some.add)
		}
	}
	return dials
}

// Connect opens the session, if there is none that lives.
func (k *Keeper) Connect(ctx context.Context) error {
	opened := k.opening.DoChan("", func() (any, error) { return nil, k.open(context.WithoutCancel(ctx)) })
	select {
	case o := <-opened:
		return o.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *Keeper) open(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k.mu.Lock()
	lives, closed := k.now != nil && !k.now.ended(), k.closed
	wait := rest.Nth(k.failed, tuning.Rest, tuning.Wait)
	k.stop = cancel
	k.mu.Unlock()
	switch {
	case lives:
		return nil
	case closed:
		return errClosed
	}
	var s *session
	err := pause.For(ctx, wait)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, k.Dialer.Bounds.WithDefaults().Silence)
		defer cancel()
		s, err = openSession(ctx, k.Dialer, k.Lost)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil && k.closed {
		s.end(errClosed)
	}
	if err == nil {
		go s.run()
		k.now, k.failed = s, 0
	} else {
		k.failed++
	}
	return err
}

func (k *Keeper) session() *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// Borrow returns a Borrower of the present session, which is opened if there is none.
func (k *Keeper) Borrow(ctx context.Context) (*Borrower, error) {
	if err := k.Connect(ctx); err != nil {
		return nil, err
	}
	return &Borrower{keeper: k, session: k.session()}, nil
}

func (k *Keeper) settle(s *settlement) error {
	if s.calls == nil {
		return k.done.settle(s)
	}
	return k.others.settle(s)
}

// Close ends the session, and with it what it holds, and closes the lanes. It waits that long at most for the server to
// let go of what is given back. An attempt whose group is not let go by then, because somebody has a table locked, say,
// is lost.
func (k *Keeper) Close(wait time.Duration) {
	k.mu.Lock()
	s, stop := k.now, k.stop
	k.closed = true
	k.mu.Unlock()
	if stop != nil {
		stop()
	}
	if s != nil {
		limit := time.AfterFunc(wait, func() { s.end(errClosed) })
		_ = s.do(&ask{ends: true}) // an error says that the session has ended
		<-s.lives.Done()
		limit.Stop()
	}
	k.Lanes.Close()
	k.done.lanes.Close()
	k.others.lanes.Close()
}

var errClosed = errors.New("lease: the keeper is closed")
