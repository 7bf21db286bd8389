// Command bench measures pgfifo, beside what it is to be compared with, on a PostgreSQL that it finds by itself.
//
//	go run . <scenario> [flags]
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
	"slices"
	"strings"
	"text/tabwriter"

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
	s := newScenario(args[0])
	if s == nil {
		c.usage()
		return fmt.Errorf("no scenario %q", args[0])
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(c.errs)
	asJSON := flags.Bool("json", false, "print one JSON object a line instead of a table")
	s.flags(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	results, err := c.measure(ctx, args[0], s)
	if *asJSON {
		return errors.Join(err, printJSON(c.out, results))
	}
	return errors.Join(err, printTable(c.out, results))
}

// measure runs a scenario on a database of its own.
func (c command) measure(ctx context.Context, name string, s scenario) (results []Result, err error) {
	db, err := openDatabase(ctx, c.serve, s.settings())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	b := &bench{database: db, scenario: name, progress: newProgress(c.out, c.errs), notes: c.errs}
	b.notef("%s on PostgreSQL %s (%s)", name, db.version, db.source)
	err = s.run(ctx, b)
	b.progress.end()
	return b.results, err
}

func (c command) usage() {
	_, _ = fmt.Fprint(c.errs, "usage: go run . <scenario> [flags]\n\n")
	tw := tabwriter.NewWriter(c.errs, 0, 8, 2, ' ', 0)
	for _, name := range slices.Sorted(scenarioNames()) {
		_, _ = fmt.Fprintf(tw, "  %s\t%s\n", name, newScenario(name).about())
	}
	_ = tw.Flush()
	_, _ = fmt.Fprint(c.errs, "\nDATABASE_URL and PGFIFO_POSTGRES choose the server; `<scenario> -h` lists the flags.\n")
}
