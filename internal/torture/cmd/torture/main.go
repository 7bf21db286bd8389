// Command torture runs producers and workers of the queue as processes, breaks things under them, and proves from what
// they logged that no promise was broken. It exits 1 if one was; the logs stay then.
//
//	go run ./internal/torture/cmd/torture -profile ci
//	go run ./internal/torture/cmd/torture -profile long -seed 7 -keep /tmp/torture
//	go run ./internal/torture/cmd/torture -jobs 5000 -groups 50 -kills 20 -json report.json
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
	cfg, path, err := configure(os.Args[1:])
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
	if path != "" {
		if err := report.WriteJSON(path); err != nil {
			return err
		}
	}
	if len(report.Violations) > 0 {
		return fmt.Errorf("%d invariants are broken", len(report.Violations))
	}
	return nil
}

// configure reads the flags: a profile, and what is to differ from it.
func configure(args []string) (cfg torture.Config, path string, err error) {
	flags := flag.NewFlagSet("torture", flag.ExitOnError)
	profile := flags.String("profile", "", "what the other flags are by default: short, ci or long")
	changes := make(map[string]func(*torture.Config))
	number := func(name, usage string, field func(*torture.Config) *int) {
		value := flags.Int(name, 0, usage)
		changes[name] = func(c *torture.Config) { *field(c) = *value }
	}
	number("jobs", "messages to send", func(c *torture.Config) *int { return &c.Jobs })
	number("groups", "message groups", func(c *torture.Config) *int { return &c.Groups })
	number("processes", "worker processes", func(c *torture.Config) *int { return &c.Processes })
	number("lanes", "lanes of each", func(c *torture.Config) *int { return &c.Lanes })
	number("producers", "producer processes", func(c *torture.Config) *int { return &c.Producers })
	number("batch", "size of batches, in the queues that have them; 1: none",
		func(c *torture.Config) *int { return &c.Batch })
	number("kills", "SIGKILLs of worker processes", func(c *torture.Config) *int { return &c.Kills })
	number("stops", "SIGSTOPs of worker processes, longer than every timeout",
		func(c *torture.Config) *int { return &c.Stops })
	number("terminates", "sessions ended with pg_terminate_backend", func(c *torture.Config) *int {
		return &c.Terminates
	})
	number("restarts", "immediate restarts of the server", func(c *torture.Config) *int { return &c.Restarts })
	number("crashes", "server processes killed with SIGKILL", func(c *torture.Config) *int { return &c.Crashes })
	number("partitions", "partitions between some workers and the server",
		func(c *torture.Config) *int { return &c.Partitions })
	number("lost-commits", "COMMITs whose answer is lost", func(c *torture.Config) *int { return &c.LostCommits })
	number("resets", "resets of all connections of some workers", func(c *torture.Config) *int { return &c.Resets })
	number("latency", "spells of latency for some workers", func(c *torture.Config) *int { return &c.Latencies })
	number("sweeps", "SIGSTOPs of worker processes in the middle of a sweep",
		func(c *torture.Config) *int { return &c.Sweeps })
	number("holds", "times that handlers take longer than every timeout, with nothing wrong",
		func(c *torture.Config) *int { return &c.Holds })
	number("reads", "times that handlers keep rows open for as long", func(c *torture.Config) *int { return &c.Reads })
	number("operators", "locks and deletions of an operator that are rolled back",
		func(c *torture.Config) *int { return &c.Operators })
	number("clashes", "jobs that cannot be given up, because a dead letter with their key is there",
		func(c *torture.Config) *int { return &c.Clashes })
	number("delayed", "jobs that wait all through the run", func(c *torture.Config) *int { return &c.Delayed })
	number("vacuums", "SIGKILLs of all worker processes, with VACUUM (FREEZE) and CHECKPOINT behind",
		func(c *torture.Config) *int { return &c.Vacuums })
	number("notices", "spells in which the server's queue of notices is full",
		func(c *torture.Config) *int { return &c.Notices })
	number("stubborn", "handlers that never end", func(c *torture.Config) *int { return &c.Stubborns })
	number("outages", "spells in which handlers say Unavailable", func(c *torture.Config) *int { return &c.Outages })
	zipf := flags.Float64("zipf", 0, "exponent of the distribution of jobs over groups, more than 1; 0: even")
	changes["zipf"] = func(c *torture.Config) { c.Zipf = *zipf }
	seed := flags.Uint64("seed", 0, "of the plan and the jobs; 0: a random one")
	changes["seed"] = func(c *torture.Config) { c.Seed = *seed }
	limit := flags.Duration("for", 0, "send and inject no more after that time; 0: no limit")
	changes["for"] = func(c *torture.Config) { c.For = *limit }
	only := flags.String("only", "",
		"what handlers do beside writing their effects, separated by commas; all of it by default")
	changes["only"] = func(c *torture.Config) { c.Only = *only }
	keep := flags.String("keep", "", "folder to keep the logs in, whatever the outcome")
	changes["keep"] = func(c *torture.Config) { c.Dir = *keep }
	flags.StringVar(&path, "json", "", "file for the report as JSON")
	if err := flags.Parse(args); err != nil {
		return cfg, "", err
	}
	if *profile != "" {
		if cfg, err = torture.Profile(*profile); err != nil {
			return cfg, "", err
		}
	}
	flags.Visit(func(f *flag.Flag) {
		if change, ok := changes[f.Name]; ok {
			change(&cfg)
		}
	})
	if cfg.Zipf != 0 && cfg.Zipf <= 1 {
		return cfg, "", fmt.Errorf("-zipf must be more than 1, or 0")
	}
	return cfg, path, nil
}
