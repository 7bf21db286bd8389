// Command bench measures pgfifo, beside what it is to be compared with, on a PostgreSQL that it finds by itself.
//
//	go run . <scenario> [-quick]
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
	"slices"
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
	return c.one(ctx, args).err
}

// one runs the scenario that the arguments begin with.
func (c command) one(ctx context.Context, args []string) outcome {
	e, err := find(args[0])
	if err != nil {
		c.usage()
		return outcome{err: err}
	}
	s, args := e.full, slices.Clone(args[1:])
	if i := slices.Index(args, "-quick"); i >= 0 {
		s, args = e.quick, slices.Delete(args, i, i+1)
	}
	flags := flag.NewFlagSet(e.name, flag.ContinueOnError)
	if f, ok := s.(flagged); ok {
		f.flags(flags)
	}
	if err := c.parse(flags, args); err != nil {
		return outcome{err: err}
	}
	return c.measure(ctx, e, s)
}

func (c command) parse(flags *flag.FlagSet, args []string) error {
	flags.SetOutput(c.errs)
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
	entry
	results []Result
	charts  []chart
	notes   string
	server  []fact
	took    time.Duration
	err     error
}

// measure runs a scenario on a database of its own, and prints its table.
func (c command) measure(ctx context.Context, e entry, s scenario) (o outcome) {
	o = outcome{entry: e}
	db, err := openDatabase(ctx, c.serve, e.settings)
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
	b := &bench{database: db, errs: c.errs, notes: io.MultiWriter(c.errs, &notes)}
	begin := time.Now()
	o.err = c.guarded(func() error { return s.run(ctx, b) })
	o.took, o.results, o.charts, o.notes = time.Since(begin), b.results, b.charts, notes.String()
	var table strings.Builder
	o.table(&table)
	_, err = io.WriteString(c.out, table.String())
	o.err = errors.Join(o.err, err)
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
	_, _ = fmt.Fprint(c.errs, "usage: go run . <scenario> [-quick]\n       go run . all [flags]\n\n")
	tw := tabwriter.NewWriter(c.errs, 0, 8, 2, ' ', 0)
	for _, e := range scenarios {
		_, _ = fmt.Fprintf(tw, "  %s\t%s\n", e.name, e.about)
	}
	_, _ = fmt.Fprintf(tw, "\n  all\t%s\n", allAbout)
	_ = tw.Flush()
	_, _ = fmt.Fprint(c.errs,
		"\nDATABASE_URL and PGFIFO_POSTGRES choose the server. With -quick a scenario is for a first look: seconds.\n")
}
