package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// latency measures how soon a message is worked when there are idle workers. The arrivals are a Poisson process whose
// times are drawn beforehand; one that comes late because the client or the server is busy still counts from its own
// time (open loop), so that a stall is not hidden by what it kept from being sent. All systems of a round get the same
// arrivals.
type latency struct {
	rates         string
	measure       time.Duration
	groups, lanes int
	rounds        int
}

func (s *latency) flags(f *flag.FlagSet) {
	f.StringVar(&s.rates, "rate", "100,1000", "arrivals per second")
	f.DurationVar(&s.measure, "for", 5*time.Second, "time of arrivals in a round")
	f.IntVar(&s.groups, "groups", 1000, "message groups")
	f.IntVar(&s.lanes, "lanes", 16, "jobs at once; River has its own settings")
	f.IntVar(&s.rounds, "rounds", 2, "rounds")
}

// ways are those to enqueue. The first is what the others stand beside.
var ways = []string{"Enqueue", "EnqueuePgxTx", "InTx"}

// A receiver is a system whose workers wait for messages. It sends all arrivals, and returns when all of them were
// worked, with the time that this took.
type receiver struct {
	name    string
	params  map[string]any
	receive func(ctx context.Context, arrivals []arrival) (time.Duration, error)
}

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
	var all [][]*stream
	list, err := numbers("rate", s.rates, 1)
	if err != nil {
		return err
	}
	for _, rate := range list {
		var streams []*stream
		for _, r := range receivers {
			streams = append(streams, newStream(float64(rate), r))
		}
		all = append(all, streams)
	}
	for round := range s.rounds {
		for _, streams := range all {
			times := poisson(streams[0].rate, s.measure, s.groups)
			order := slices.Clone(streams)
			if round%2 == 1 {
				slices.Reverse(order)
			}
			for _, st := range order {
				if err := st.round(ctx, times); err != nil {
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

// poisson draws arrivals: the gaps between them are exponential.
func poisson(rate float64, during time.Duration, groups int) []arrivalTime {
	var list []arrivalTime
	for at := time.Duration(0); ; {
		at += time.Duration(rand.ExpFloat64() / rate * float64(time.Second))
		if at > during && len(list) > 0 {
			return list
		}
		list = append(list, arrivalTime{at: at, group: rand.IntN(groups)})
	}
}
