package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// A Report is what a soak did, and what it found.
type Report struct {
	Jobs          int
	Took          time.Duration
	Faults        map[string]int
	FailedStarts  int // of workers, whose connections a fault met before they had all
	Statements    int // the most prepared statements that a worker's session had, as its handlers saw
	Before, After *Level
	Memory        []Trend
	Problems      []string // what is wrong; empty: nothing
}

// maxStatements bounds the prepared statements of a worker's session: the library's, 40, and those of the handlers,
// which send few different texts. (What bun sends has no parameters, and is not prepared.)
const maxStatements = 42

// judge adds what the measures say to the problems.
func (r *Report) judge(long bool) {
	r.Problems = append(r.Problems, r.After.above(r.Before)...)
	switch {
	case r.Statements == 0:
		r.Problems = append(r.Problems, "no handler has seen how many prepared statements there are")
	case r.Statements > maxStatements:
		r.Problems = append(r.Problems,
			fmt.Sprintf("a session had %d prepared statements, more than %d", r.Statements, maxStatements))
	}
	if !long {
		return
	}
	if len(r.Memory) == 0 {
		r.Problems = append(r.Problems,
			fmt.Sprintf("too short for a trend of the memory: %d samples are needed", minSamples))
	}
	for _, t := range r.Memory {
		if !t.Flat() {
			r.Problems = append(r.Problems, fmt.Sprintf("%s grows by %.1f MiB an hour", t.What, t.PerHour/mib))
		}
	}
}

// Print writes the report for people.
func (r *Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	p("%d jobs in %v\t", r.Jobs, r.Took.Round(100*time.Millisecond))
	for _, kind := range slices.Sorted(maps.Keys(r.Faults)) {
		p("%s\t%d", kind, r.Faults[kind])
	}
	p("faults in all\t%d", count(r.Faults))
	p("starts of workers that such a fault prevented\t%d", r.FailedStarts)
	p("\t\t")
	p("\tbefore\tafter")
	p("goroutines\t%d\t%d", count(r.Before.Goroutines), count(r.After.Goroutines))
	names := maps.Clone(r.Before.Connections)
	maps.Copy(names, r.After.Connections)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p("connections of %q\t%d\t%d", name, r.Before.Connections[name], r.After.Connections[name])
	}
	p("sessions idle in a transaction\t%d\t%d", r.Before.IdleInTx, r.After.IdleInTx)
	p("prepared transactions\t%d\t%d", r.Before.Prepared, r.After.Prepared)
	p("locks of client sessions\t%d\t%d", r.Before.Locks, r.After.Locks)
	p("temporary tables\t%d\t%d", r.Before.TempTables, r.After.TempTables)
	if r.Before.Files < 0 {
		p("open files\tnot told by this system\t")
	} else {
		p("open files\t%d\t%d", r.Before.Files, r.After.Files)
	}
	p("prepared statements of a worker's session\tat most %d\t(bound %d)", r.Statements, maxStatements)
	if err := w.Flush(); err != nil {
		return err
	}
	if err := r.printMemory(out); err != nil {
		return err
	}
	for _, text := range r.Problems {
		_, _ = fmt.Fprintln(out, "WRONG:", text)
	}
	verdict := "nothing is left over"
	if len(r.Problems) > 0 {
		verdict = fmt.Sprintf("%d things are wrong", len(r.Problems))
	}
	_, err := fmt.Fprintln(out, "\n"+verdict)
	return err
}

func (r *Report) printMemory(out io.Writer) error {
	if len(r.Memory) == 0 {
		_, err := fmt.Fprintln(out, "\nmemory: too few samples for a trend; -for 15m makes one")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "\nmemory, MiB, last two thirds\tsamples\tmean\tfirst\tlast\tan hour\t\t")
	for _, t := range r.Memory {
		verdict := "flat"
		if !t.Flat() {
			verdict = "GROWS"
		}
		_, _ = fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.1f\t%+.1f\t%s\t\n",
			t.What, t.Samples, t.Mean/mib, t.First/mib, t.Last/mib, t.PerHour/mib, verdict)
	}
	return w.Flush()
}
