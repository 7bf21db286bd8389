package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func init() {
	settings := map[string]string{"a.setting": "1"}
	scenarios = append(scenarios,
		entry{"test-failing", "a pretence", pretended{}, pretended{rate: 30, fails: true}, settings},
		entry{"test-fine", "a pretence", pretended{rate: 300}, pretended{rate: 30}, settings},
		entry{"test-panic", "a pretence", pretended{}, pretended{rate: 30, panics: true}, settings})
}

// pretended is a scenario that measures nothing.
type pretended struct {
	fails, panics bool
	rate          int
}

func (p pretended) run(_ context.Context, b *bench) error {
	b.report(Result{
		System: "pgfifo", Params: map[string]any{"lanes": 4, "batch": 1}, Rate: float64(p.rate), P50: 1, P99: 12,
		RatioTo: "other", Ratio: 0.7, Goal: append(atLeast(0.6), atMost(10, "p99_ms")...),
	})
	if p.panics {
		panic("no luck")
	}
	if p.fails {
		return errors.New("out of luck")
	}
	b.report(Result{
		System: "a|b", Params: map[string]any{"lanes": 4, "batch": 2}, Rate: 100, Goal: atMost(2, "statements_per_s"),
	})
	b.notef("a note")
	curve := series{name: "pgfifo"}
	curve.add(0, 0) // has no place on a logarithmic axis
	curve.add(1, 2)
	b.plot(chart{
		name: "time", title: "Time", x: axis{label: "s"}, y: axis{label: "jobs/s", log: true},
		series: []series{curve, {}},
	})
	return nil
}

func TestAll(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	dir := t.TempDir()
	c := command{out: &out, errs: t.Output(), serve: serveShared}
	err := c.run(t.Context(), []string{
		"all", "-quick", "-only", "test-fine,test-failing,test-panic", "-out", dir,
	})
	require.EqualError(t, err, "test-failing: out of luck\ntest-panic: panic: no luck")

	written, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	require.NoError(t, err)
	text := string(written)
	for _, part := range []string{
		"`go run . all -quick -only test-fine,test-failing,test-panic`", "| PostgreSQL |", "| fsync |", "| Go | go",
		"**[test-failing](#test-failing) failed.**", "out of luck",
		"| [test-fine](#test-fine) | pgfifo | batch=1 | ≥ 0.6 of other | 0.7 | met |",
		"| [test-fine](#test-fine) | pgfifo | batch=1 | p99_ms ≤ 10 | 12 | **missed** |",
		`| [test-fine](#test-fine) | a\|b | batch=2 | statements_per_s ≤ 2 | not measured | **missed** |`,
		"A pretence. `go run . test-fine -quick`, 0s; lanes=4. It asks the server for `a.setting=1`.",
		"| pgfifo | batch=1 | 30 | 1.00 | 12.00 | 0.70 | other | ≥ 0.6 of other: met; p99_ms ≤ 10: missed |",
		"![test-fine-time](results/test-fine-time.svg)", "a note",
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, dir)
	svg, err := os.ReadFile(filepath.Join(dir, "results", "test-fine-time.svg"))
	require.NoError(t, err)
	require.Contains(t, string(svg), "<text")

	require.Contains(t, out.String(), "statements_per_s", "the table of all")
}

func TestAllStopsWhenInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	c := command{out: io.Discard, errs: writerFunc(func() { cancel() }), serve: serveShared}
	require.ErrorIs(t, c.run(ctx, []string{"all", "-only", "test-fine,test-failing", "-out", dir}), context.Canceled)
	text, err := os.ReadFile(filepath.Join(dir, "RESULTS.md"))
	require.NoError(t, err)
	require.Contains(t, string(text), "## test-failing")
	require.NotContains(t, string(text), "## test-fine\n")
}

// A writerFunc is called for each line.
type writerFunc func()

func (f writerFunc) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}

func TestQuick(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 300, run(t, "test-fine")[0].Rate, 0)
	require.InDelta(t, 30, run(t, "test-fine", "-quick")[0].Rate, 0)
}

func TestGoals(t *testing.T) {
	t.Parallel()
	shared := atLeast(0.9)
	for _, tc := range []struct {
		line Result
		met  bool
	}{
		{Result{Ratio: 0.95, Goal: shared}, true},
		{Result{Ratio: 0.85, Goal: shared}, false},
		{Result{Goal: shared}, false},
		{Result{P99: 10, Goal: atMost(10, "p99_ms")}, true},
		{Result{Goal: atMost(10, "p99_ms")}, false},
		{Result{Extra: map[string]float64{"statements_per_s": 0}, Goal: atMost(2, "statements_per_s")}, true},
	} {
		require.Equal(t, tc.met, tc.line.Goal[0].met(tc.line), "%v", tc.line)
	}
}
