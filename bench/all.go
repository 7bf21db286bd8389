package main

import (
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

const allAbout = "every scenario, one after the other, into RESULTS.md, with curves over time"

// chartFolder is beside RESULTS.md.
const chartFolder = "results"

// all runs the scenarios and keeps the report up to date: what is done stays when the run is interrupted. A scenario
// that fails is told and stops no other; the error is returned at the end.
func (c command) all(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("all", flag.ContinueOnError)
	short := flags.Bool("quick", false, "the short form of each, for a first look")
	only := flags.String("only", "", "these `scenarios` alone: drain,backlog")
	out := flags.String("out", ".", "`folder` of RESULTS.md and "+chartFolder+"/")
	if err := c.parse(flags, args); err != nil {
		return err
	}
	chosen, err := choose(*only)
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
	for i, e := range chosen {
		_, _ = fmt.Fprintf(c.errs, "%s, %d of %d, after %v\n", e.name, i+1, len(chosen),
			time.Since(r.begun).Round(time.Second))
		s := e.full
		if *short {
			s = e.quick
		}
		o := c.measure(ctx, e, s)
		files, err := drawCharts(filepath.Join(*out, chartFolder), e.name, o.charts)
		o.err = errors.Join(o.err, err)
		if o.err != nil {
			_, _ = fmt.Fprintf(c.errs, "%s: %v\n", e.name, o.err)
		}
		r.sections = append(r.sections, section{o, files})
		if err := r.write(filepath.Join(*out, "RESULTS.md")); err != nil {
			return err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(r.err(), context.Cause(ctx))
}

// choose returns the scenarios of a list in their order, or all.
func choose(only string) ([]entry, error) {
	if only == "" {
		return scenarios, nil
	}
	asked := strings.Split(only, ",")
	for _, name := range asked {
		if _, err := find(name); err != nil {
			return nil, err
		}
	}
	not := func(e entry) bool { return !slices.Contains(asked, e.name) }
	return slices.DeleteFunc(slices.Clone(scenarios), not), nil
}

// write replaces the file as a whole: no time finds half of it.
func (r *report) write(path string) error {
	if err := os.WriteFile(path+".new", []byte(r.markdown()), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
