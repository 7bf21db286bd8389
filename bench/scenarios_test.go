package main

import (
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

// ran are the short forms of the scenarios: how many lines they have, and goals in them.
var ran = []struct {
	name         string
	lines, goals int
	check        func(t *testing.T, lines []Result)
}{
	{"drain", 10, 4, func(t *testing.T, lines []Result) {
		require.Equal(t, "River", lines[1].RatioTo)
		require.Contains(t, lines[len(lines)-1].Extra, "out_of_turn")
	}},
	{
		"backlog", 7, 2,
		func(t *testing.T, lines []Result) {
			for _, r := range lines[:5] {
				require.Positive(t, r.Extra["discovery_share"], "internal/schedule's statements are not recognized")
				require.Less(t, r.Extra["discovery_share"], 1.0)
			}
		},
	},
	{"workers", 4, -1, func(t *testing.T, lines []Result) {
		for _, r := range lines {
			require.Less(t, r.Ratio, 1.1, "the handlers take their time")
			require.GreaterOrEqual(t, r.Extra["handler_ms"], 4.5) // 5, and as much more as the machine is busy
			require.Less(t, r.Extra["handler_ms"], 1000.0)
		}
	}},
	{"hot", 3, 2, nil},
	{"group-limit", 5, 0, nil},
	{"relaxed", 4, 0, nil},
	{
		"skew", 4, 2,
		func(t *testing.T, lines []Result) {
			for i, r := range lines {
				require.Positive(t, r.Extra["cold_p99_ms"])
				require.GreaterOrEqual(t, r.Extra["max_ms"], r.Extra["cold_max_ms"])
				require.Len(t, r.Goal, 1-i%2, "rounds are counted only while lanes are busy")
			}
		},
	},
	{"lookback", 2, 1, func(t *testing.T, lines []Result) {
		require.Positive(t, lines[0].Ratio)
		require.Zero(t, lines[1].Extra["of_first_group_before"])
	}},
	{
		"priority", 3, 2,
		func(t *testing.T, lines []Result) {
			for _, r := range lines[:2] {
				require.InDelta(t, 1, r.Extra["begun_share"], 0)
			}
		},
	},
	{
		"latency", 2 * 2 * 5, 2 * 3 * 2,
		func(t *testing.T, lines []Result) {
			require.Equal(t, "River's p50", lines[0].RatioTo)
			require.Equal(t, "pgfifo Enqueue's p50", lines[1].RatioTo)
			require.Positive(t, lines[0].Extra["p99_ratio"])
		},
	},
	{
		"horizon", 6, 3,
		func(t *testing.T, lines []Result) {
			require.Contains(t, lines[0].Extra, "last_claim_ms", "the claim is not recognized")
			for _, late := range lines[1:3] {
				require.InDelta(t, 1, late.Extra["messages"], 0)
			}
			require.Contains(t, lines[5].Extra, "last_claim_ms")
		},
	},
	{
		"long-job", 1, 1,
		func(t *testing.T, lines []Result) {
			require.GreaterOrEqual(t, lines[0].Extra["worst_p99_ms"], lines[0].Extra["best_p99_ms"])
			require.Positive(t, lines[0].Extra["server_claim_ms"], "internal/lease's statements are not recognized")
		},
	},
	{
		"sessions", 3 + 2 + 3 + 4, 3 + 2 + 1 + 1,
		func(t *testing.T, lines []Result) {
			require.InDelta(t, 60, lines[2].Extra["at_once"], 0)
			require.InDelta(t, 1, lines[2].Extra["advisory_locks"], 0)
			require.LessOrEqual(t, lines[2].Extra["connections"], 20.0)
			require.InDelta(t, 3, lines[3].Extra["old_transactions"], 0)
			require.Zero(t, lines[4].Extra["old_transactions"])
			require.InDelta(t, 12, lines[11].Extra["recovered"], 0)
		},
	},
	{"queues", 2, 2, nil},
	{
		"enqueue", 4 + 2 + 6, 2,
		func(t *testing.T, lines []Result) {
			require.Equal(t, "plain INSERT", lines[0].RatioTo)
			require.Equal(t, "River Insert", lines[1].RatioTo)
			require.Equal(t, "River InsertManyFast", lines[4].RatioTo)
		},
	},
	{"outbox", 3 * 2, 3, nil},
	{"outage", 2, 2, func(t *testing.T, lines []Result) {
		require.Zero(t, lines[0].Extra["dead_letters"])
		require.Less(t, lines[0].Extra["tried"], 50.0)
		require.Positive(t, lines[1].Extra["dead_letters"])
	}},
	{"idle", 2, 2, func(t *testing.T, lines []Result) {
		for _, r := range lines {
			require.Positive(t, r.Extra["statements_per_s"])
		}
	}},
	{"delayed", 5, 5, nil},
	{"memory", 2, 1, func(t *testing.T, lines []Result) {
		require.Positive(t, lines[1].Ratio)
		require.Positive(t, lines[1].Extra["rss_before_mib"])
	}},
	{"statements", 2, 0, func(t *testing.T, lines []Result) {
		for _, r := range lines {
			require.GreaterOrEqual(t, r.Extra["statements_per_job"], 2.0, "claim and settle")
			require.GreaterOrEqual(t, r.Extra["commits_per_job"], 1.0)
			require.GreaterOrEqual(t, r.Extra["round_trips_per_job"], 1.0)
		}
		require.Greater(t, lines[1].Extra["statements_per_job"], lines[0].Extra["statements_per_job"])
	}},
	{"recovery", 1, 0, func(t *testing.T, lines []Result) {
		require.InDelta(t, 2, lines[0].Extra["kills"], 0)
	}},
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, r := range ran {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			lines, goals := run(t, r.name, "-quick"), 0
			for _, line := range lines {
				goals += len(line.Goal)
				require.True(t, line.Rate > 0 || line.P50 > 0 || len(line.Extra) > 0, "%v", line)
				require.GreaterOrEqual(t, line.P99, line.P50)
			}
			want := r.lines
			if pgbenchPath() != "" && (r.name == "drain" || r.name == "hot") {
				want += 2 // the ceiling in Go stands beside pgbench's
			}
			require.Len(t, lines, want)
			if r.goals >= 0 { // -1: none where the processor is full
				require.Equal(t, r.goals, goals)
			}
			if r.check != nil {
				r.check(t, lines)
			}
		})
	}
	named := make(map[string]bool)
	for _, r := range ran {
		named[r.name] = true
	}
	for _, e := range scenarios {
		require.True(t, named[e.name] || strings.HasPrefix(e.name, "test-"), e.name)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	c := command{out: io.Discard, errs: t.Output(), serve: serveShared}
	require.ErrorIs(t, c.run(t.Context(), nil), flag.ErrHelp)
	for args, want := range map[string]string{
		"sprint":                 `no scenario "sprint"`,
		"drain x":                `unexpected argument "x"`,
		"all -only drain,sprint": `no scenario "sprint"`,
		"outage -for x":          `invalid value "x"`,
		"horizon -systems x":     `no system "x"`,
	} {
		require.ErrorContains(t, c.run(t.Context(), strings.Fields(args)), want)
	}
}

// run runs a scenario and returns its lines.
func run(t *testing.T, args ...string) []Result {
	t.Helper()
	o := command{out: io.Discard, errs: t.Output(), serve: serveShared}.one(t.Context(), args)
	require.NoError(t, o.err)
	return o.results
}
