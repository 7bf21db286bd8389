package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// latency measures how soon a message is worked when there are idle workers. The arrivals are a Poisson process whose
// times are drawn beforehand; one that comes late because the client or the server is busy still counts from its own
// time (open loop), so that a stall is not hidden by what it kept from being sent.
type latency struct {
	rates         string
	measure       time.Duration
	groups, lanes int
	rounds        int
}

func (*latency) about() string {
	return "from an enqueue to the start of its handler, with idle workers"
}

func (s *latency) flags(f *flag.FlagSet) {
	f.StringVar(&s.rates, "rate", "100,1000", "arrivals per second")
	f.DurationVar(&s.measure, "for", 5*time.Second, "time of arrivals in a round")
	f.IntVar(&s.groups, "groups", 1000, "message groups")
	f.IntVar(&s.lanes, "lanes", 16, "jobs at once")
	f.IntVar(&s.rounds, "rounds", 2, "rounds")
}

func (*latency) settings() map[string]string { return nil }

func (s *latency) run(ctx context.Context, b *bench) error {
	var all []*stream
	for text := range strings.SplitSeq(s.rates, ",") {
		rate, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || rate <= 0 {
			return fmt.Errorf("rate %q: not a number over 0", text)
		}
		all = append(all, &stream{rate: rate, woken: newHistogram(), whole: newHistogram()})
	}
	b.progress.begin(b.scenario, s.rounds*len(all))
	for range s.rounds {
		for _, st := range all {
			if err := s.round(ctx, b, st); err != nil {
				return fmt.Errorf("rate %v: %w", st.rate, err)
			}
			b.progress.add()
		}
	}
	for _, st := range all {
		for _, r := range st.results(s) {
			b.report(r)
		}
	}
	return nil
}

// round has a worker wait, messages arrive, and all of them worked.
func (s *latency) round(ctx context.Context, b *bench, st *stream) error {
	arrivals := draw(st.rate, s.measure, s.groups)
	c := &crew{db: b.database, groups: s.groups, lanes: s.lanes}
	c.handler = fifo.HandlerFunc(func(_ context.Context, job *fifo.Job) error {
		arrivals[binary.BigEndian.Uint64(job.Payload[8:])].started.Store(time.Now().UnixNano())
		return nil
	})
	c.prepare()
	t := newTally(len(arrivals))
	err := c.run(ctx, &fifo.Config{Hooks: &fifo.Hooks{Job: t.begin, Settled: t.settled}}, func(ctx context.Context) error {
		if err := c.connected(ctx, 2); err != nil {
			return err
		}
		if err := s.send(ctx, b, c, arrivals); err != nil {
			return err
		}
		return t.wait(ctx, c.failed)
	})
	if err != nil {
		return err
	}
	for i := range arrivals {
		st.add(&arrivals[i])
	}
	st.took += t.took()
	return c.audit(ctx)
}

// draw returns the arrivals of a Poisson process: the gaps between them are exponential.
func draw(rate float64, during time.Duration, groups int) []arrival {
	var list []arrival
	for at := time.Duration(0); ; {
		at += time.Duration(rand.ExpFloat64() / rate * float64(time.Second))
		if at > during && len(list) > 0 {
			return list
		}
		list = append(list, arrival{at: at, group: rand.IntN(groups)})
	}
}
