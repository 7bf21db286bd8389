package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// latency measures how soon a message is worked when there are idle workers. The arrivals are a Poisson process whose
// times are drawn beforehand; one that comes late because the client or the server is busy still counts from its own
// time (open loop), so that a stall is not hidden by what it kept from being sent. All systems of a round get the same
// arrivals.
type latency struct {
	rates         []int         // arrivals per second
	measure       time.Duration // time of arrivals in a round
	groups, lanes int           // River has its own settings
	rounds        int
}

// ways are those to enqueue. The first is what the others stand beside.
var ways = []string{"Enqueue", "EnqueuePgxTx", "InTx"}

func (s *latency) run(ctx context.Context, b *bench) error {
	var receivers []receiver
	for _, call := range ways {
		receivers = append(receivers, s.pgfifo(b, call))
	}
	for _, best := range []bool{true, false} {
		r := newRiver(b.database, best)
		if err := r.prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", r.name(), err)
		}
		receivers = append(receivers, inRiver(r))
	}
	all := make([][]*stream, len(s.rates))
	for i, rate := range s.rates {
		for _, r := range receivers {
			all[i] = append(all[i], newStream(float64(rate), r))
		}
	}
	for round := range s.rounds {
		for _, streams := range all {
			rate := streams[0].rate
			drawn := newTraffic(max(int(rate*s.measure.Seconds()), 1), s.groups, even)
			drawn.arrive(rate)
			order := slices.Clone(streams)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, st := range order {
				if err := st.round(ctx, drawn.again()); err != nil {
					return fmt.Errorf("%s, rate %v: %w", st.receiver.name, st.rate, err)
				}
			}
		}
	}
	for _, streams := range all {
		s.report(b, streams)
	}
	return nil
}

// report adds the lines of one rate: from the end of the enqueue, or of the commit of its transaction, which is what
// the goals are about, and from the time at which the message should have been sent.
func (s *latency) report(b *bench, streams []*stream) {
	for _, from := range []string{"enqueue", "arrival"} {
		for i, st := range streams {
			r := st.result(from)
			switch {
			case i == 0: // how many times longer River takes
				r.against(streams[len(ways)].result(from), atLeast(1), goals{{Of: "p99_ratio", Op: ">=", Value: 1}})
				r.Ratio, r.Extra["p99_ratio"] = 1/r.Ratio, 1/r.Extra["p99_ratio"]
			case i < len(ways):
				r.against(streams[0].result(from), atMost(2, "ratio"), atMost(2, "p99_ratio"))
			}
			if from != "enqueue" {
				r.Goal = nil
			}
			b.report(r)
		}
	}
}

// against says how many times longer than another one it takes.
func (r *Result) against(other Result, ratio, p99 goals) {
	r.RatioTo, r.Ratio = other.System+"'s p50", r.P50/other.P50
	r.Extra["p99_ratio"] = r.P99 / other.P99
	r.Goal = slices.Concat(ratio, p99)
}

// A stream is what was measured of one system at one rate.
type stream struct {
	rate     float64
	receiver receiver
	waits    map[string]*histogram // from the end of the enqueue, and from the arrival
	count    int
	took     time.Duration
}

func newStream(rate float64, r receiver) *stream {
	return &stream{rate: rate, receiver: r, waits: map[string]*histogram{
		"enqueue": newHistogram(), "arrival": newHistogram(),
	}}
}

// round has all messages sent and worked.
func (st *stream) round(ctx context.Context, t *traffic) error {
	took, err := st.receiver.receive(ctx, t)
	if err != nil {
		return err
	}
	for _, p := range t.passages {
		st.waits["enqueue"].record(p.started.at - p.sent.at) // a handler may start before the enqueue has returned: 0
		st.waits["arrival"].record(p.started.at - t.origin - p.due)
	}
	st.count += len(t.passages)
	st.took += took
	return nil
}

func (st *stream) result(from string) Result {
	params := map[string]any{"rate": st.rate, "from": from}
	for k, v := range st.receiver.params {
		params[k] = v
	}
	r := Result{System: st.receiver.name, Rate: float64(st.count) / st.took.Seconds(), Params: params}
	r.latencies(st.waits[from])
	return r
}
