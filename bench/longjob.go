package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/fifo"
)

// longJob asks what jobs that run for a long time do to short ones beside them. Each is a transaction as old as itself,
// under which vacuum can remove nothing, so whatever gets slower does so over the time: the result is that of the worst
// part of it.
type longJob struct {
	long            int           // jobs that run all the time
	measure, window time.Duration // how long they run, and the parts of that; a p99 wants hundreds of jobs in each
	rate            float64       // arrivals of short jobs per second
	groups, lanes   int           // of short jobs, and for all jobs
}

func (s *longJob) run(ctx context.Context, b *bench) error {
	b.tryStatements(ctx)
	h := &hour{longJob: s, vigil: newVigil(), span: &span{every: s.window}}
	h.traffic = newTraffic(max(int(s.rate*s.measure.Seconds()), 1), s.groups, even)
	h.traffic.arrive(s.rate)
	c := &crew{db: b.database, groups: s.groups + s.long, lanes: s.lanes, handler: h.handle, jobTimeout: -1}
	c.prepare()
	err := c.shift(ctx, h.traffic.tally(s.long), func(ctx context.Context) error {
		defer h.end() // also if something fails: the worker waits for its handlers
		if err := h.start(ctx, c, queue, h.groups, h.long); err != nil {
			return err
		}
		return h.pass(ctx, b, c)
	})
	if err != nil {
		return err
	}
	h.report(b)
	return nil
}

// An hour is one run, however long.
type hour struct {
	*longJob
	*span   // with a mark at the end of each window
	*vigil  // the long jobs
	traffic *traffic
}

// handle runs a long job or a short one.
func (h *hour) handle(ctx context.Context, job *fifo.Job) error {
	if h.traffic.passage(job) != nil {
		return h.traffic.handle(ctx, job)
	}
	return h.stand(ctx)
}

// pass sends the short jobs, looks at the server at the end of each window, and makes sure that the long ones were
// there.
func (h *hour) pass(ctx context.Context, b *bench, c *crew) error {
	eg, both := errgroup.WithContext(ctx)
	eg.Go(func() error { return h.traffic.send(both, c) })
	eg.Go(func() error {
		return h.follow(both, b, &subject{done: c.ledger.count.Load, claims: isClaim}, h.measure)
	})
	if err := errors.Join(eg.Wait(), h.countDead(ctx, b.database)); err != nil {
		return err
	}
	old, err := b.oldTransactions(ctx, h.measure)
	if err == nil && old < h.long {
		err = fmt.Errorf("only %d transactions of %d long jobs were open all the time", old, h.long)
	}
	return err
}

// report has the waits of all short jobs, and the goal is for the window in which their p99 was the longest.
func (h *hour) report(b *bench) {
	whole, arrival := newHistogram(), newHistogram()
	p99, p50 := series{name: "p99, from ready to start"}, series{name: "p50, from ready to start"}
	worst, best := 0.0, math.Inf(1)
	part, last := newHistogram(), len(h.marks)-2 // the last window has what is left over
	waits := h.traffic.waits()
	for i, w := range waits {
		whole.record(w.sinceSent)
		arrival.record(w.sinceDue)
		part.record(w.sinceSent)
		n := h.windowOf(w, last)
		if i < len(waits)-1 && h.windowOf(waits[i+1], last) == n {
			continue
		}
		end := h.window.Seconds() * float64(n+1)
		p50.add(end, part.millis(50))
		p99.add(end, part.millis(99))
		worst, best = max(worst, part.millis(99)), min(best, part.millis(99))
		part.Reset()
	}
	r := Result{System: "pgfifo", Rate: float64(len(h.traffic.passages)) / h.measure.Seconds(), Params: map[string]any{
		"long": h.long, "for": h.measure.String(), "window": h.window.String(), "rate": h.rate,
		"groups": h.groups, "lanes": h.lanes,
	}}
	r.Extra = map[string]float64{
		"worst_p99_ms": worst, "best_p99_ms": best, "from_arrival_p99_ms": arrival.millis(99),
		"dead_rows": float64(h.dead),
	}
	r.latencies(whole)
	server := h.claims("mean of a claim, in the server")
	if last := len(server.points) - 1; last >= 0 {
		r.more("server_claim_ms", h.marks[len(h.marks)-1].claim(h.marks[0]))
		r.more("last_server_claim_ms", server.points[last].Y)
	}
	r.Goal = atMost(10, "worst_p99_ms")
	b.report(r)
	b.plot(chart{
		name: "claims", title: "Short jobs beside long ones", series: []series{p99, p50, server},
		x: axis{label: "seconds"}, y: axis{label: "ms", log: true},
	})
}

// windowOf is the window in which a job was to arrive.
func (h *hour) windowOf(w wait, last int) int { return min(int(w.due/h.window), max(last, 0)) }
