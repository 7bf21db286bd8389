package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/internal/torture"
)

const (
	// mostJobs is how many jobs the harness may take to catch a mutant, all tries together.
	mostJobs = 5000
	// tryWithin ends a run that does not end by itself.
	tryWithin = 150 * time.Second
)

// A result is what came of a subject.
type result struct {
	*subject
	by      []string // the invariants, or the tests, that caught it
	first   string   // what broke first
	jobs    int      // that had been started until then, all tries together
	tries   int
	seconds float64 // with the build
	err     error   // of the gate
}

// ok reports whether a mutant was caught, or a control was not.
func (r *result) ok() bool { return r.err == nil && (len(r.by) == 0) == r.control }

func (r *result) verdict() string {
	by := strings.Join(r.by, " ")
	switch {
	case r.err != nil:
		return "FAILED: " + r.err.Error()
	case r.control && r.ok() && r.Test.Run != "":
		return fmt.Sprintf("passes: %d tests of package %s", strings.Count(r.Test.Run, "|")+1, r.Test.Package)
	case r.control && r.ok():
		return "passes: " + strings.Join(r.Torture, " ")
	case r.control:
		return "BROKEN: " + by + ": " + r.first
	case len(r.by) == 0:
		return fmt.Sprintf("NOT CAUGHT by %d jobs", r.jobs)
	case r.Test.Run != "":
		return "test " + by
	}
	return fmt.Sprintf("%s after %d jobs", by, r.jobs)
}

// torture runs the harness until it breaks one of the invariants that the mutant is to break, with one seed after the
// other. Invariants other than those catch nothing: a machine that is too busy breaks some.
func (r *result) torture(ctx context.Context, g *gate, dir, overlay string) {
	program := filepath.Join(dir, "torture")
	if r.err = g.build(ctx, overlay, "build", "-o", program, "./internal/torture/cmd/torture"); r.err != nil {
		return
	}
	for r.err == nil && len(r.by) == 0 && (r.tries == 0 || !r.control && r.jobs+r.jobs/r.tries <= mostJobs) {
		r.tries++
		r.try(ctx, g, dir, program)
	}
	_ = os.Remove(program)
}

// try runs the harness once.
func (r *result) try(ctx context.Context, g *gate, dir, program string) {
	args := append(r.Torture[:len(r.Torture):len(r.Torture)], "-keep", dir, "-seed", fmt.Sprint(r.tries))
	output, err := g.execute(ctx, tryWithin, dir, program, args, r.Alone)
	if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("output-%d.txt", r.tries)), output, 0o600); err != nil {
		r.err = err
		return
	}
	b, missing := os.ReadFile(filepath.Join(dir, fmt.Sprintf("seed-%d", r.tries), "report.json"))
	if missing != nil { // it was the harness that failed
		r.err = fmt.Errorf("%w: %s", errors.Join(err, missing), lastLine(output))
		return
	}
	var rep torture.Report
	if r.err = json.Unmarshal(b, &rep); r.err != nil {
		return
	}
	var broken []string
	for _, v := range rep.Violations {
		broken = append(broken, v.Invariant)
	}
	r.by = r.CaughtBy(broken)
	if r.control {
		r.by = broken
	}
	for _, v := range rep.Violations {
		if len(r.by) > 0 && v.Invariant == r.by[0] {
			r.first = v.Texts[0]
			r.jobs += v.JobsUntil
			return
		}
	}
	r.jobs += max(rep.Jobs, 1)
}

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// test runs the tests that must fail.
func (r *result) test(ctx context.Context, g *gate, dir, overlay string) {
	program := filepath.Join(dir, "tests")
	pkg := "./" + r.Test.Package
	if r.err = g.build(ctx, overlay, "test", "-c", "-o", program, pkg); r.err != nil {
		return
	}
	defer func() { _ = os.Remove(program) }()
	r.tries++
	within := tryWithin
	if r.control { // all tests of the package that mutants name
		within *= 2
	}
	args := []string{
		"-test.run", "^(" + r.Test.Run + ")$", "-test.timeout", (within - 10*time.Second).String(), "-test.v",
	}
	output, err := g.execute(ctx, within, filepath.Join(g.root, r.Test.Package), program, args, r.Alone)
	if err := os.WriteFile(filepath.Join(dir, "output.txt"), output, 0o600); err != nil {
		r.err = err
		return
	}
	for _, m := range failedTest.FindAllSubmatch(output, -1) {
		r.by = append(r.by, string(m[1]))
	}
	switch {
	case bytes.Contains(output, []byte("panic: test timed out")):
		r.by = append(r.by, "(never ends)")
	case len(r.by) == 0 && bytes.Contains(output, []byte("\npanic: ")):
		r.by = append(r.by, "(ends the process)")
	}
	if err != nil && len(r.by) == 0 {
		r.err = fmt.Errorf("%w: %s", err, lastLine(output))
	}
	if !bytes.Contains(output, []byte("=== RUN ")) {
		r.err = fmt.Errorf("no test is named %s", r.Test.Run)
	}
}

// build runs the go command with the overlay.
func (g *gate) build(ctx context.Context, overlay, verb string, args ...string) error {
	all := []string{verb}
	if overlay != "" {
		all = append(all, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(append(all, "-ldflags", "-s -w"), args...)...)
	cmd.Dir = g.root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w: %s", verb, err, bytes.TrimSpace(output))
	}
	return nil
}

// execute runs a program on the server of all, or on one of its own.
func (g *gate) execute(
	ctx context.Context, within time.Duration, dir, program string, args []string, alone bool,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Env = os.Environ()
	if !alone {
		cmd.Env = append(cmd.Env, pgserver.EnvURL+"="+g.shared.URL, pgserver.EnvSource+"=url")
	}
	return cmd.CombinedOutput()
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}
