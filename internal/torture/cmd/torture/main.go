// Command torture runs producers and workers of the queue as processes, breaks things under them, and proves from what
// they logged that no promise was broken. It exits 1 if one was; the logs stay then.
//
//	go run ./internal/torture/cmd/torture -profile ci
//	go run ./internal/torture/cmd/torture -profile long -seed 7 -keep /tmp/torture
//	go run ./internal/torture/cmd/torture -profile soak -jobs 1000000 -for 15m
//	go run ./internal/torture/cmd/torture -jobs 5000 -groups 50 -kills 20
//
// The server is one of its own, from Docker or from PostgreSQL's binaries, unless DATABASE_URL names one; faults that
// the machine or the server does not allow are left out, and it says so.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/pgfifo/pgfifo/internal/torture"
)

func main() {
	torture.Main() // a worker or producer process does not return
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(1)
	}
}

func run() error {
	cfg, err := configure(os.Args[1:])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	began := time.Now()
	cfg.Logf = func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	report, err := torture.Run(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Print(report)
	if len(report.Violations) > 0 {
		return fmt.Errorf("%d invariants are broken", len(report.Violations))
	}
	return nil
}

// configure reads the flags: a profile, and what is to differ from it.
func configure(args []string) (cfg torture.Config, err error) {
	flags := flag.NewFlagSet("torture", flag.ExitOnError)
	profile := flags.String("profile", "", "what the other flags are by default: short, ci, long or soak")
	flags.IntVar(&cfg.Jobs, "jobs", 0, "messages to send")
	flags.IntVar(&cfg.Groups, "groups", 0, "message groups")
	flags.IntVar(&cfg.Processes, "processes", 0, "worker processes")
	flags.IntVar(&cfg.Lanes, "lanes", 0, "lanes of each")
	flags.IntVar(&cfg.Batch, "batch", 0, "size of batches, in the queues that have them; 1: none")
	flags.IntVar(&cfg.Delayed, "delayed", 0, "jobs that wait all through the run")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "of the plan and the jobs; 0: a random one")
	flags.DurationVar(&cfg.For, "for", 0, "send and inject no more after that time; 0: no limit")
	flags.StringVar(&cfg.Only, "only", "",
		"what handlers do beside writing their effects, separated by commas; all of it by default")
	flags.StringVar(&cfg.Dir, "keep", "", "folder to keep the logs and the report in, whatever the outcome")
	cfg.Faults = make(map[string]int)
	for _, kind := range torture.Kinds {
		flags.Func(kind.Flag, "how many: "+kind.Usage, func(text string) (err error) {
			cfg.Faults[kind.Flag], err = strconv.Atoi(text)
			return err
		})
	}
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if *profile != "" {
		if cfg, err = torture.Profile(*profile); err != nil {
			return cfg, err
		}
		if err := flags.Parse(args); err != nil { // what was given by name goes before the profile
			return cfg, err
		}
	}
	return cfg, nil
}
