package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHorizon(t *testing.T) {
	t.Parallel()
	results := run(t, "horizon", "-for", "600ms", "-warm", "100ms", "-every", "50ms", "-groups", "20", "-lanes", "4",
		"-depth", "200", "-late", "1")
	var systems []string
	for _, r := range results {
		systems = append(systems, r.System)
	}
	require.Equal(t, []string{"pgfifo", "pgfifo, late lower id", "pgfifo, late lower id", "River", "naive"}, systems)
	for _, r := range results {
		switch r.System {
		case "pgfifo, late lower id":
			require.Positive(t, r.P50)
			require.InDelta(t, 1, r.Extra["messages"], 0)
		default:
			require.Positive(t, r.Rate, r.System)
			require.Contains(t, r.Extra, "last_claim_ms", r.System)
		}
	}
	require.Positive(t, results[0].Extra["last_claim_ms"], "the claim is not recognized")
}

func TestSnapshotIsHeld(t *testing.T) {
	t.Parallel()
	db, err := openDatabase(t.Context(), serveShared, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.close()) }()
	snap, err := holdSnapshot(t.Context(), db.url)
	require.NoError(t, err)
	_, err = db.pool.Exec(t.Context(), "SELECT pg_terminate_backend($1, 5000)", snap.conn.PgConn().PID())
	require.NoError(t, err)
	require.ErrorContains(t, snap.end(), "snapshot", "a run whose snapshot was lost is none")
}

func TestSpan(t *testing.T) {
	t.Parallel()
	sp := &span{counted: true}
	for i := range int64(10) { // 100 jobs a second first, and 50 from the sixth second on
		sp.marks = append(sp.marks, mark{
			at: time.Duration(i) * time.Second, done: 100*min(i, 6) + 50*max(i-6, 0),
			calls: 10 * i, claimed: float64(20 * i),
		})
	}
	r := sp.result("x", nil)
	require.InDelta(t, 0.5, r.Ratio, 1e-9)
	require.Equal(t, "its first 3s", r.RatioTo)
	require.InDelta(t, 2, r.Extra["last_claim_ms"], 1e-9)
	require.Len(t, sp.rates("x").points, 9)
	require.Len(t, sp.claims("x").points, 9)
}

func TestEnqueueScenario(t *testing.T) {
	t.Parallel()
	results := run(t, "enqueue", "-mix", "1x2,20x2", "-variants", "20x2", "-for", "30ms", "-rounds", "1",
		"-groups", "10", "-held", "3")
	require.Len(t, results, 4+2+6)
	for _, r := range results {
		require.Positive(t, r.Rate, r.System)
	}
	require.Equal(t, "plain INSERT", results[0].RatioTo)
	require.Equal(t, "River Insert", results[1].RatioTo)
	require.Equal(t, "River InsertManyFast", results[4].RatioTo)
}

func TestLoads(t *testing.T) {
	t.Parallel()
	loads, err := parseLoads("1x8, 100x2")
	require.NoError(t, err)
	require.Equal(t, []load{{1, 8}, {100, 2}}, loads)
	for _, bad := range []string{"1", "x2", "0x1", "1x0"} {
		_, err := parseLoads(bad)
		require.ErrorContains(t, err, bad)
	}
}

func TestOutbox(t *testing.T) {
	t.Parallel()
	results := run(t, "outbox", "-clients", "2", "-each", "2", "-rest", "1ms", "-for", "50ms", "-rounds", "1")
	require.Len(t, results, 3*2)
	for i, r := range results {
		require.Positive(t, r.Rate, r.System)
		require.Equal(t, i%2 == 1, r.Ratio > 0)
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	results := run(t, "latency", "-rate", "20,100", "-for", "500ms", "-groups", "10", "-lanes", "2", "-rounds", "1")
	require.Len(t, results, 2*2*5, "rates, beginnings, systems")
	for _, r := range results {
		require.Positive(t, r.P50)
	}
	require.Equal(t, "River's p50", results[0].RatioTo)
	require.Equal(t, "pgfifo Enqueue's p50", results[1].RatioTo)
	require.Len(t, results[1].Goal, 2)
	require.Positive(t, results[0].Extra["p99_ratio"])
}
