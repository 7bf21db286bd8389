package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const allAbout = "every scenario, one after the other, into RESULTS.md with charts"

// reading is the order in which the scenarios are told and run. One that is not here comes after them.
var reading = []string{
	"drain", "backlog", "workers", "hot", "group-limit", "relaxed", "skew", "lookback", "priority", "latency",
	"horizon", "long-job", "queues", "enqueue", "outbox", "outage", "idle", "delayed", "memory", "statements",
	"recovery",
}

func inOrder() []string {
	place := func(name string) int {
		if i := slices.Index(reading, name); i >= 0 {
			return i
		}
		return len(reading)
	}
	return slices.SortedFunc(scenarioNames(), func(a, b string) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a, b))
	})
}

// A quicker scenario has a short form, for a first look and for smoke tests: less of everything, the same question.
type quicker interface{ quick() }

// shorten has a scenario take its short form, if it has one.
func shorten(s scenario) {
	if q, ok := s.(quicker); ok {
		q.quick()
	}
}

// chartFolder is beside RESULTS.md.
const chartFolder = "results"

// all runs the scenarios and keeps the report up to date: what is done stays when the run is interrupted. A scenario
// that fails is told and stops no other; the error is returned at the end.
func (c command) all(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("all", flag.ContinueOnError)
	flags.SetOutput(c.errs)
	short := flags.Bool("quick", false, "the short form of each, for a first look")
	only := flags.String("only", "", "these `scenarios` alone: drain,backlog")
	out := flags.String("out", ".", "`folder` of RESULTS.md and "+chartFolder+"/")
	asJSON := flags.Bool("json", false, "print one JSON object a line instead of a table")
	if err := parse(flags, args); err != nil {
		return err
	}
	names, err := choose(*only)
	if err != nil {
		return err
	}
	r := &report{
		begun: time.Now().UTC(), command: "go run . all", machine: machineFacts(ctx), modules: moduleFacts(ctx),
	}
	if *short {
		r.command, r.flags = r.command+" -quick", " -quick"
	}
	if *only != "" {
		r.command += " -only " + *only
	}
	for i, name := range names {
		_, _ = fmt.Fprintf(c.errs, "%s, %d of %d, after %v\n", name, i+1, len(names),
			time.Since(r.begun).Round(time.Second))
		s := newScenario(name)
		s.flags(flag.NewFlagSet(name, flag.ContinueOnError)) // for the defaults
		if *short {
			shorten(s)
		}
		o := c.measure(ctx, name, s)
		files, err := drawCharts(filepath.Join(*out, chartFolder), name, o.results, o.charts)
		o.err = errors.Join(o.err, err)
		if o.err != nil {
			_, _ = fmt.Fprintf(c.errs, "%s: %v\n", name, o.err)
		}
		r.add(o, files)
		if err := r.write(filepath.Join(*out, "RESULTS.md")); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(c.print(r.results(), *asJSON), r.err(), context.Cause(ctx))
}

// choose returns the scenarios of a list in their order, or all.
func choose(only string) ([]string, error) {
	if only == "" {
		return inOrder(), nil
	}
	asked := strings.Split(only, ",")
	for _, name := range asked {
		if scenarios[name] == nil {
			return nil, fmt.Errorf("no scenario %q", name)
		}
	}
	return slices.DeleteFunc(inOrder(), func(name string) bool { return !slices.Contains(asked, name) }), nil
}

// write replaces the file as a whole: no time finds half of it.
func (r *report) write(path string) error {
	if err := os.WriteFile(path+".new", []byte(r.markdown()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
