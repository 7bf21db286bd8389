// Command bench measures pgfifo, beside what it is to be compared with, on a PostgreSQL that it finds by itself.
//
//	go run . <scenario> [flags]
//	go run . all [flags]
//
// The systems of a scenario run in turn in one process (A B A B ...), because a machine's speed changes from minute to
// minute: the ratios are made pair by pair, and hold where the rates do not. Every job that pgfifo works is checked; a
// broken promise fails the run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pgfifo/pgfifo/internal/killbench"
)

func main() {
	killbench.Main() // a worker process of the scenario recovery does not return
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command{out: os.Stdout, errs: os.Stderr, serve: serveOwn}.run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// A command is one run of the program.
type command struct {
	out, errs io.Writer
	serve     serveFunc
}

func (c command) run(ctx context.Context, args []string) error {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		c.usage()
		return flag.ErrHelp
	}
	if args[0] == "all" {
		return c.all(ctx, args[1:])
	}
	o := c.one(ctx, args)
	return errors.Join(o.err, printTable(c.out, o.results))
}

// one runs the scenario that the arguments begin with.
func (c command) one(ctx context.Context, args []string) outcome {
	e, err := find(args[0])
	if err != nil {
		c.usage()
		return outcome{err: err}
	}
	s := e.make()
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(c.errs)
	short := flags.Bool("quick", false, "shorten: smaller defaults, for a first look")
	s.flags(flags)
	if err := parse(flags, args[1:]); err != nil {
		return outcome{err: err}
	}
	if q, ok := s.(quicker); ok && *short {
		q.quick()
		if err := parse(flags, args[1:]); err != nil { // what was given by name goes before the smaller defaults
			return outcome{err: err}
		}
	}
	return c.measure(ctx, e, s)
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}

// An outcome is all that came of a scenario. What was measured before an error is there.
type outcome struct {
	scenario string
	about    string
	results  []Result
	charts   []chart
	notes    string
	server   []fact
	settings map[string]string // beyond those of the server's facts
	took     time.Duration
	err      error
}

// measure runs a scenario on a database of its own.
func (c command) measure(ctx context.Context, e entry, s scenario) (o outcome) {
	o = outcome{scenario: e.name, about: e.about, settings: e.settings}
	db, err := openDatabase(ctx, c.serve, o.settings)
	if err != nil {
		o.err = err
		return o
	}
	defer func() { o.err = errors.Join(o.err, db.close()) }()
	if o.server, err = db.facts(ctx); err != nil {
		o.err = err
		return o
	}
	_, _ = fmt.Fprintf(c.errs, "%s on PostgreSQL %s (%s)\n", e.name, db.version, db.source)
	var notes strings.Builder
	b := &bench{database: db, scenario: e.name, notes: io.MultiWriter(c.errs, &notes)}
	begin := time.Now()
	o.err = c.guarded(func() error { return s.run(ctx, b) })
	o.took, o.results, o.charts, o.notes = time.Since(begin), b.results, b.charts, notes.String()
	return o
}

// guarded makes a panic an error, so that the database is dropped, and of many scenarios the others run.
func (c command) guarded(run func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			_, _ = c.errs.Write(debug.Stack())
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return run()
}

func (c command) usage() {
	_, _ = fmt.Fprint(c.errs, "usage: go run . <scenario> [flags]\n       go run . all [flags]\n\n")
	tw := tabwriter.NewWriter(c.errs, 0, 8, 2, ' ', 0)
	for _, e := range scenarios {
		_, _ = fmt.Fprintf(tw, "  %s\t%s\n", e.name, e.about)
	}
	_, _ = fmt.Fprintf(tw, "\n  all\t%s\n", allAbout)
	_ = tw.Flush()
	_, _ = fmt.Fprint(c.errs,
		"\nDATABASE_URL and PGFIFO_POSTGRES choose the server; `<scenario> -h` lists the flags.\n")
}
