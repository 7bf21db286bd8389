package main

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/fifo"
)

// An arrival is one message of a stream.
type arrival struct {
	at      time.Duration // since the beginning
	group   int
	due     time.Time
	sent    time.Time    // when its enqueue returned
	started atomic.Int64 // when its handler did, in Unix nanoseconds
}

// A stream is what was measured at one rate.
type stream struct {
	rate         float64
	woken, whole *hdrhistogram.Histogram
	count        int
	took         time.Duration
}

func (st *stream) add(a *arrival) {
	st.count++
	started := time.Unix(0, a.started.Load())
	record(st.woken, started.Sub(a.sent)) // a handler may start before the enqueue has returned: 0
	record(st.whole, started.Sub(a.due))
}

func (st *stream) results(s *latency) []Result {
	line := func(from string, h *hdrhistogram.Histogram) Result {
		r := Result{System: "pgfifo", Rate: float64(st.count) / st.took.Seconds(), Params: map[string]any{
			"rate": st.rate, "from": from, "groups": s.groups, "lanes": s.lanes,
		}}
		r.quantiles(h)
		r.Extra = map[string]float64{"max_ms": millis(h.Max())}
		return r
	}
	return []Result{line("enqueue", st.woken), line("arrival", st.whole)}
}

// producers bounds the connections that enqueue. An arrival that waits for one still counts from its own time.
const producers = 16

// send enqueues every arrival at its time, and waits for all of them.
func (s *latency) send(ctx context.Context, b *bench, c *crew, arrivals []arrival) error {
	pc, err := pgxpool.ParseConfig(b.url)
	if err != nil {
		return err
	}
	pc.MaxConns, pc.MinConns = producers, producers
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return err
	}
	defer pool.Close()
	client := fifo.Open(pool, nil)
	defer func() { _ = client.Close() }()
	if _, err := client.Jobs(ctx, fifo.Filter{Queue: queue, Limit: 1}); err != nil { // the first call checks the schema
		return err
	}
	if err := until(ctx, func() (bool, error) { return pool.Stat().IdleConns() >= producers, nil }); err != nil {
		return err
	}
	lines := make([]line, s.groups)
	var eg errgroup.Group
	begin := time.Now()
	for i := range arrivals {
		a := &arrivals[i]
		a.due = begin.Add(a.at)
		if err := pause(ctx, time.Until(a.due)); err != nil {
			break
		}
		eg.Go(func() error { return lines[a.group].enqueue(ctx, client, a, i) })
	}
	c.filled = int64(len(arrivals))
	return eg.Wait()
}

// A line numbers the messages of a group in the order of their enqueues.
type line struct {
	mu   sync.Mutex
	next uint64
}

func (l *line) enqueue(ctx context.Context, client *fifo.Client, a *arrival, index int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, l.next), uint64(index))
	_, err := client.Enqueue(ctx, fifo.Message{Queue: queue, GroupID: groupID(a.group), Payload: payload})
	a.sent = time.Now()
	l.next++
	return err
}
