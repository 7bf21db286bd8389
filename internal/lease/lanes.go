package lease

import (
	"context"
	"sync"
)

// Lanes are lanes that many share, each for a while: see Borrower.
type Lanes struct {
	dialer *Dialer
	free   chan struct{} // has a place for each that is not lent

	mu     sync.Mutex
	idle   []*Lane
	closed bool
}

// NewLanes returns up to n lanes, which are dialed when they are needed.
func NewLanes(d *Dialer, n int) *Lanes {
	l := &Lanes{dialer: d, free: make(chan struct{}, n)}
	for range n {
		l.free <- struct{}{}
	}
	return l
}

// add dials one before it is needed.
func (l *Lanes) add(ctx context.Context) error {
	lane, err := l.dial(ctx)
	if err == nil {
		l.putIdle(lane)
	}
	return err
}

// get waits for a lane. Whoever has got one puts it back.
func (l *Lanes) get(ctx context.Context) (*Lane, error) { return l.either(ctx, l, ctx) }

// either returns a lane of l or of other. It waits until one of the contexts ends; a free one is taken at once, even if
// waits has ended.
func (l *Lanes) either(ctx context.Context, other *Lanes, waits context.Context) (*Lane, error) {
	from := l
	select {
	case <-l.free:
	case <-other.free:
		from = other
	default:
		select {
		case <-l.free:
		case <-other.free:
			from = other
		case <-waits.Done():
			return nil, context.Cause(waits)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return from.ready(ctx)
}

// ready returns a lane to a caller that has taken a place from free.
func (l *Lanes) ready(ctx context.Context) (*Lane, error) {
	for lane := l.last(); lane != nil; lane = l.last() {
		if !lane.Closed() && !lane.HungUp() {
			return lane, nil
		}
		_ = lane.Close()
	}
	lane, err := l.dial(ctx)
	if err != nil {
		l.free <- struct{}{}
	}
	return lane, err
}

func (l *Lanes) dial(ctx context.Context) (*Lane, error) {
	lane, err := l.dialer.dial(ctx, l.dialer.Pool)
	if err != nil {
		return nil, err
	}
	lane.of = l
	return lane, nil
}

// last returns the lane that was used last, or nil.
func (l *Lanes) last() (lane *Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.idle) - 1; n >= 0 {
		lane, l.idle = l.idle[n], l.idle[:n]
	}
	return lane
}

func (l *Lanes) put(lane *Lane) {
	l.putIdle(lane)
	l.free <- struct{}{}
}

func (l *Lanes) putIdle(lane *Lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || lane.Closed() || lane.Spoiled() {
		go func() { _ = lane.Close() }() // it may wait for the server
		return
	}
	l.idle = append(l.idle, lane)
}

// Close closes those that are not lent, and the others when they are put back.
func (l *Lanes) Close() {
	l.mu.Lock()
	idle := l.idle
	l.idle, l.closed = nil, true
	l.mu.Unlock()
	for _, lane := range idle {
		_ = lane.Close()
	}
}
