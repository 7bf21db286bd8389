// Command mutants plants bugs in the library, one after the other, and has the harness and the tests look for them. It
// prints for each what caught it and after how many jobs, and exits 1 if one was not caught.
//
//	go run ./internal/torture/cmd/mutants
//	go run ./internal/torture/cmd/mutants -run 'claim|head' -keep /tmp/mutants
//
// A mutant is a text that replaces another in a build of its own (go build -overlay); nothing of it is in what users
// build. First of all, the library as it is must pass every kind of run and every test that the list uses.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run() error {
	pattern := flag.String("run", "", "only mutants whose names match; and no control unless they need it")
	keep := flag.String("keep", "", "folder to keep the logs and reports in")
	parallel := flag.Int("parallel", 2*runtime.NumCPU(), "builds and runs beside each other")
	flag.Parse()
	match, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	cases := choose(match)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	g := &gate{began: time.Now(), parallel: *parallel}
	if g.root, err = moduleRoot(ctx); err != nil {
		return err
	}
	if g.dir = *keep; g.dir == "" {
		if g.dir, err = os.MkdirTemp("", "pgfifo-mutants-"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(g.dir) }()
	} else if g.dir, err = filepath.Abs(g.dir); err != nil {
		return err
	}
	results, err := g.run(ctx, cases)
	if err != nil {
		return err
	}
	return printTable(os.Stdout, results, time.Since(g.began))
}

// moduleRoot returns the folder of the module that is to be changed.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/pgfifo/pgfifo").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
