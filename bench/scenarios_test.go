package main

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/killbench"
	"github.com/pgfifo/pgfifo/internal/pgserver"
)

// shared is one server for all tests. It counts statements, and need not be durable.
var shared struct {
	once   sync.Once
	server *pgserver.Server
	err    error
}

func TestMain(m *testing.M) {
	killbench.Main()
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func serveShared(ctx context.Context, _ map[string]string) (*pgserver.Server, func() error, error) {
	shared.once.Do(func() {
		ctx := context.WithoutCancel(ctx) // of the test that comes first, which may be canceled
		shared.server, shared.err = pgserver.Start(ctx, &pgserver.Options{Settings: countStatements})
	})
	return shared.server, func() error { return nil }, shared.err
}

// run runs a scenario and returns its lines.
func run(t *testing.T, args ...string) []Result {
	t.Helper()
	o := command{out: io.Discard, errs: t.Output(), serve: serveShared}.one(t.Context(), args)
	require.NoError(t, o.err)
	for _, r := range o.results {
		require.Equal(t, args[0], r.Scenario)
	}
	return o.results
}

func TestStatements(t *testing.T) {
	t.Parallel()
	results := run(t, "statements", "-jobs", "1000", "-groups", "20", "-lanes", "4", "-rounds", "2")
	require.Len(t, results, 2)
	for _, r := range results {
		require.GreaterOrEqual(t, r.Extra["statements_per_job"], 2.0, "claim and settle")
		require.GreaterOrEqual(t, r.Extra["commits_per_job"], 1.0)
		require.GreaterOrEqual(t, r.Extra["round_trips_per_job"], 1.0)
	}
	require.Greater(t, results[1].Extra["statements_per_job"], results[0].Extra["statements_per_job"])
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	results := run(t, "recovery", "-kills", "2", "-survivors", "1", "-lanes", "2")
	require.Len(t, results, 1)
	require.InDelta(t, 2, results[0].Extra["kills"], 0)
	require.GreaterOrEqual(t, results[0].P99, results[0].P50)
	require.Positive(t, results[0].P50)
}

func TestOutage(t *testing.T) {
	t.Parallel()
	results := run(t, "outage", "-groups", "200", "-for", "2s", "-attempts", "2", "-lanes", "4")
	require.Len(t, results, 2)
	require.Zero(t, results[0].Extra["dead_letters"])
	require.Less(t, results[0].Extra["tried"], 50.0)
	require.Positive(t, results[1].Extra["dead_letters"]) // all, unless the machine is busy
}

func TestPriority(t *testing.T) {
	t.Parallel()
	results := run(t, "priority", "-groups", "20000", "-messages", "5", "-lanes", "2", "-every", "10ms", "-wait", "10s")
	require.Len(t, results, len(kinds))
	for _, r := range results[:2] {
		require.InDelta(t, 1, r.Extra["begun_share"], 0)
	}
}

func TestIdle(t *testing.T) {
	t.Parallel()
	results := run(t, "idle", "-lanes", "3", "-settle", "100ms", "-for", "2s")
	require.Len(t, results, 2)
	for _, r := range results {
		require.Positive(t, r.Extra["statements_per_s"])
	}
}

func TestDelayed(t *testing.T) {
	t.Parallel()
	results := run(t, "delayed", "-groups", "3000", "-messages", "20", "-settle", "100ms", "-for", "1s")
	require.Len(t, results, 5)
	require.Positive(t, results[0].Extra["rss_mib"])
	for _, r := range results[1:] {
		require.GreaterOrEqual(t, r.P99, r.P50)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := command{out: &out, errs: t.Output(), serve: serveShared}
	args := "drain -jobs 40 -groups 4 -lanes 2 -rounds 1 -naive 0"
	require.NoError(t, c.run(t.Context(), strings.Split(args, " ")))
	require.Contains(t, out.String(), "groups=4 lanes=2")
	require.NotContains(t, out.String(), "naive")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	c := command{out: io.Discard, errs: t.Output(), serve: serveShared}
	require.ErrorIs(t, c.run(t.Context(), nil), flag.ErrHelp)
	for args, want := range map[string]string{
		"sprint":                 `no scenario "sprint"`,
		"drain x":                `unexpected argument "x"`,
		"all -only drain,sprint": `no scenario "sprint"`,
		"all drain":              `unexpected argument "drain"`,
		"backlog -backlogs ten":  `backlog "ten"`,
		"latency -rate 0":        `rate "0"`,
		"workers -lanes ten":     `lanes "ten"`,
		"workers -handler 0":     "-handler",
		"memory -groups 0":       `groups "0"`,
		"skew -rounds 0":         "-rounds",
		"lookback -groups 0":     "-groups",
		"long-job -lanes 4":      "-lanes",
		"horizon -for 1s":        "3 times -every",
		"horizon -systems x":     `no system "x"`,
	} {
		require.ErrorContains(t, c.run(t.Context(), strings.Split(args, " ")), want)
	}
}
