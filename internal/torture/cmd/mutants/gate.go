package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/torture/mutants"
)

// A subject is a mutant to be caught, or one control: the library as it is, in a kind of run that mutants use.
type subject struct {
	mutants.Mutant
	theme   string
	control bool
}

// choose returns the mutants whose names match, behind the controls for them.
func choose(match *regexp.Regexp) (all []subject) {
	controls := make(map[string]int) // by the kind of run: the place in all
	tests := make(map[string][]string)
	var chosen []subject
	for _, theme := range mutants.Themes() {
		for _, m := range theme.Mutants {
			if !match.MatchString(m.Name) {
				continue
			}
			chosen = append(chosen, subject{m, theme.Name, false})
			i, known := controls[kind(&m)]
			if !known {
				i = len(all)
				controls[kind(&m)] = i
				c := mutants.Mutant{Name: fmt.Sprintf("control-%d", i+1), Breaks: "nothing", Torture: m.Torture}
				all = append(all, subject{c, "the library as it is", true})
			}
			all[i].Alone = all[i].Alone || m.Alone
			if m.Test.Run != "" {
				runs := append(tests[m.Test.Package], m.Test.Run)
				slices.Sort(runs)
				tests[m.Test.Package] = slices.Compact(runs)
				all[i].Test = mutants.Test{Package: m.Test.Package, Run: strings.Join(tests[m.Test.Package], "|")}
			}
		}
	}
	return append(all, chosen...)
}

// kind names the run of the harness that is to catch a mutant, or the package of the test.
func kind(m *mutants.Mutant) string { return strings.Join(m.Torture, " ") + m.Test.Package }

// A gate runs all subjects.
type gate struct {
	root, dir string
	began     time.Time
	parallel  int
	shared    *pgserver.Server // for all that need none of their own

	mu   sync.Mutex // what is below
	done int
}

// run runs the subjects, and returns what came of them in their order.
func (g *gate) run(ctx context.Context, all []subject) ([]result, error) {
	if len(all) == 0 {
		return nil, errors.New("no mutant has such a name")
	}
	var err error
	g.shared, err = pgserver.Start(ctx, &pgserver.Options{Settings: map[string]string{
		"shared_buffers": "256MB", "max_connections": "600", "max_wal_size": "4GB", "autovacuum_naptime": "5s",
		"lock_timeout": "15s", // a mutant that waits where nothing may wait is to fail its test, not to hang it
	}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.shared.Close() }()
	results := make([]result, len(all))
	next := make(chan int)
	var workers sync.WaitGroup
	for range g.parallel {
		workers.Go(func() {
			for i := range next {
				results[i] = g.examine(ctx, &all[i])
				g.say(&results[i], len(all))
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	workers.Wait()
	return results, ctx.Err()
}

// say tells the progress.
func (g *gate) say(r *result, of int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done++
	fmt.Fprintf(os.Stderr, "%6.1fs  %d of %d  %-34s %s\n", time.Since(g.began).Seconds(), g.done, of,
		r.Name, r.verdict())
}

// examine builds a subject and looks what catches it.
func (g *gate) examine(ctx context.Context, s *subject) (r result) {
	r = result{subject: s}
	began := time.Now()
	defer func() { r.seconds = time.Since(began).Seconds() }()
	dir := filepath.Join(g.dir, s.Name)
	if r.err = os.MkdirAll(dir, 0o700); r.err != nil {
		return r
	}
	overlay := ""
	if len(s.Edits) > 0 {
		if overlay, r.err = s.Overlay(g.root, dir); r.err != nil {
			return r
		}
	}
	if s.Test.Run != "" {
		r.test(ctx, g, dir, overlay)
	} else {
		r.torture(ctx, g, dir, overlay)
	}
	return r
}
