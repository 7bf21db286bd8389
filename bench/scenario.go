package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"iter"
	"maps"
)

// A scenario is one question to measure. It is used once: flags, then run.
type scenario interface {
	about() string
	// flags declares the scenario's own; their values are its fields.
	flags(f *flag.FlagSet)
	// settings are what the server needs beyond its defaults, as far as this program starts it.
	settings() map[string]string
	run(ctx context.Context, b *bench) error
}

var scenarios = map[string]func() scenario{
	"backlog":     func() scenario { return new(backlog) },
	"delayed":     func() scenario { return new(delayed) },
	"drain":       func() scenario { return new(drain) },
	"enqueue":     func() scenario { return new(enqueue) },
	"group-limit": func() scenario { return new(groupLimit) },
	"horizon":     func() scenario { return new(horizon) },
	"hot":         func() scenario { return new(hot) },
	"idle":        func() scenario { return new(idle) },
	"latency":     func() scenario { return new(latency) },
	"long-job":    func() scenario { return new(longJob) },
	"lookback":    func() scenario { return new(lookback) },
	"memory":      func() scenario { return new(memory) },
	"outage":      func() scenario { return new(outage) },
	"outbox":      func() scenario { return new(outbox) },
	"priority":    func() scenario { return new(priority) },
	"queues":      func() scenario { return new(queues) },
	"recovery":    func() scenario { return new(recovery) },
	"relaxed":     func() scenario { return new(relaxed) },
	"skew":        func() scenario { return new(skew) },
	"statements":  func() scenario { return new(statements) },
	"workers":     func() scenario { return new(workers) },
}

func scenarioNames() iter.Seq[string] { return maps.Keys(scenarios) }

// newScenario returns nil for a name that is none.
func newScenario(name string) scenario {
	make := scenarios[name]
	if make == nil {
		return nil
	}
	return make()
}

// A bench is what a scenario works with, and reports to.
type bench struct {
	*database
	scenario string
	progress *progress
	notes    io.Writer
	results  []Result
	charts   []chart
}

// notef tells people what does not fit the table.
func (b *bench) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(b.notes, format+"\n", args...)
}

// report adds a line to the table.
func (b *bench) report(r Result) {
	r.Scenario = b.scenario
	r.Goal = r.Goal.judge(r)
	b.results = append(b.results, r)
}
