package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// An arrivalTime is when a message comes, and where it goes.
type arrivalTime struct {
	at    time.Duration // since the beginning
	group int
}

// An arrival is one message of a stream.
type arrival struct {
	arrivalTime
	due     time.Time
	sent    time.Time    // when its enqueue returned
	started atomic.Int64 // when its handler did first, in Unix nanoseconds
}

func (a *arrival) start() { a.started.CompareAndSwap(0, time.Now().UnixNano()) }

// A stream is what was measured of one system at one rate.
type stream struct {
	rate     float64
	receiver receiver
	waits    map[string]*hdrhistogram.Histogram // from the end of the enqueue, and from the arrival
	count    int
	took     time.Duration
}

func newStream(rate float64, r receiver) *stream {
	return &stream{rate: rate, receiver: r, waits: map[string]*hdrhistogram.Histogram{
		"enqueue": newHistogram(), "arrival": newHistogram(),
	}}
}

// round has all arrivals sent and worked.
func (st *stream) round(ctx context.Context, times []arrivalTime) error {
	arrivals := make([]arrival, len(times))
	for i, t := range times {
		arrivals[i].arrivalTime = t
	}
	took, err := st.receiver.receive(ctx, arrivals)
	if err != nil {
		return err
	}
	for i := range arrivals {
		a := &arrivals[i]
		started := time.Unix(0, a.started.Load())
		record(st.waits["enqueue"], started.Sub(a.sent)) // a handler may start before the enqueue has returned: 0
		record(st.waits["arrival"], started.Sub(a.due))
	}
	st.count += len(arrivals)
	st.took += took
	return nil
}

func (st *stream) result(from string) Result {
	params := map[string]any{"rate": st.rate, "from": from}
	for k, v := range st.receiver.params {
		params[k] = v
	}
	h := st.waits[from]
	r := Result{System: st.receiver.name, Rate: float64(st.count) / st.took.Seconds(), Params: params}
	r.quantiles(h)
	r.Extra = map[string]float64{"max_ms": millis(h.Max())}
	return r
}

// producers bounds the connections that enqueue. An arrival that waits for one still counts from its own time.
const producers = 16

// sendAll sends every arrival at its time, and waits for all of them.
func sendAll(
	ctx context.Context, arrivals []arrival, send func(ctx context.Context, a *arrival, index int) error,
) error {
	var eg errgroup.Group
	begin := time.Now()
	for i := range arrivals {
		a := &arrivals[i]
		a.due = begin.Add(a.at)
		if err := pause.For(ctx, time.Until(a.due)); err != nil {
			break
		}
		eg.Go(func() error { return send(ctx, a, i) })
	}
	return eg.Wait()
}
