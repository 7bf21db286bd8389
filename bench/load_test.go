package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSkew(t *testing.T) {
	t.Parallel()
	results := run(t, "skew", "-jobs", "400", "-groups", "40", "-lanes", "4", "-rounds", "1",
		"-for", "300ms", "-load", "0.2")
	require.Len(t, results, 4)
	for i, r := range results {
		require.Positive(t, r.P99)
		require.Positive(t, r.Extra["cold_p99_ms"])
		require.GreaterOrEqual(t, r.Extra["max_ms"], r.Extra["cold_max_ms"])
		require.Len(t, r.Goal, 1-i%2, "rounds are counted only while lanes are busy")
	}
}

func TestLookback(t *testing.T) {
	t.Parallel()
	results := run(t, "lookback", "-backlog", "2000", "-groups", "7", "-lanes", "2", "-rounds", "2")
	require.Len(t, results, 2)
	require.Equal(t, "pgfifo, alone", results[0].RatioTo)
	require.Positive(t, results[0].Ratio)
	for _, r := range results {
		require.Positive(t, r.P50)
		require.LessOrEqual(t, r.Extra["earliest_ms"], r.Extra["max_ms"])
	}
	require.Zero(t, results[1].Extra["of_first_group_before"])
}

func TestLongJob(t *testing.T) {
	t.Parallel()
	results := run(t, "long-job", "-for", "600ms", "-window", "300ms", "-rate", "100", "-groups", "10", "-lanes", "5")
	require.Len(t, results, 1)
	require.Positive(t, results[0].P50)
	require.GreaterOrEqual(t, results[0].Extra["worst_p99_ms"], results[0].Extra["best_p99_ms"])
	require.Positive(t, results[0].Extra["server_claim_ms"], "the statements of internal/lease are not recognized")
}

// history makes a traffic of which the starts are known: a string of groups, one lane, each job settled before the
// next.
func history(starts string) *traffic {
	t := &traffic{passages: make([]passage, len(starts))}
	numbers := make(map[rune]uint64)
	for i, g := range starts {
		at := time.Duration(i+1) * time.Millisecond
		t.passages[i] = passage{
			group: int(g), number: numbers[g],
			started: moment{at, int64(i)}, settled: moment{at + time.Millisecond/2, int64(i + 1)},
		}
		numbers[g]++
	}
	return t
}

func TestRounds(t *testing.T) {
	t.Parallel()
	for starts, want := range map[string][]int{
		"abcabc":   {0, 0, 0, 0, 0, 0}, // in turn
		"abbabb":   {0, 0, 0, 1, 0, 0},
		"abcbcbca": {0, 0, 0, 0, 0, 0, 0, 2}, // the others started three times
		"bbba":     {0, 0, 0, 2},             // a was there from the beginning
	} {
		var got []int
		for _, w := range history(starts).waits() {
			got = append(got, w.rounds)
		}
		require.Equal(t, want, got, starts)
	}
}

func TestWaits(t *testing.T) {
	t.Parallel()
	waits := history("aba").waits()
	require.Zero(t, waits[0].sinceSent)
	require.Equal(t, time.Millisecond, waits[1].sinceSent, "since the worker began")
	require.Equal(t, 1500*time.Microsecond, waits[2].sinceSent, "since the job before was settled")

	late := history("a")
	late.origin = time.Millisecond / 4
	late.passages[0].sent.at = time.Millisecond / 2
	late.passages[0].due = time.Millisecond / 8
	w := late.waits()[0]
	require.Equal(t, time.Millisecond/2, w.sinceSent)
	require.Equal(t, time.Millisecond*5/8, w.sinceDue, "from its own time, however late it was sent")
}

func TestContested(t *testing.T) {
	t.Parallel()
	ends := history("abcabbb").ends()
	require.Equal(t, int64(2), contested(ends, 3))
	require.Equal(t, int64(3), contested(ends, 2))
	require.Equal(t, int64(6), contested(ends, 1))
	require.Equal(t, int64(-1), contested(ends, 4))
	for start, groups := range []int{3, 3, 3, 2, 1, 1, 1, 0} {
		require.Equal(t, groups, left(ends, int64(start)), start)
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	const n, groups = 20_000, 100
	shares := make(map[string]float64)
	for _, sh := range append([]shape{even}, skews...) {
		first, draw := 0, sh.draw(groups)
		for range n {
			rank := draw()
			require.Less(t, rank, groups)
			if rank == 0 {
				first++
			}
		}
		shares[sh.name] = float64(first) / n
	}
	require.InDelta(t, 0.01, shares["even"], 0.01)
	require.InDelta(t, 0.24, shares["zipf 1.1"], 0.03) // one over the sum of k to the power of -1.1 up to 100
	require.InDelta(t, 0.5, shares["half in one"], 0.03)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	results := run(t, "sessions", "-crowd", "60", "-takes", "1s", "-crowd-lanes", "8", "-long", "3", "-for", "500ms",
		"-rate", "100", "-groups", "20", "-drain", "100", "-jobs", "200", "-rounds", "1", "-lanes", "4",
		"-at-once", "4,20",
		"-killed", "12", "-few", "2", "-kills", "1")
	require.Len(t, results, 3+2+3+4)
	crowd, long, kill := results[2], results[4], results[11]
	require.InDelta(t, 60, crowd.Extra["at_once"], 0)
	require.InDelta(t, 1, crowd.Extra["advisory_locks"], 0)
	require.LessOrEqual(t, crowd.Extra["connections"], 20.0)
	require.Positive(t, long.P99)
	require.Zero(t, long.Extra["old_transactions"])
	require.InDelta(t, 3, results[3].Extra["old_transactions"], 0)
	require.InDelta(t, 12, kill.Extra["recovered"], 0)
}
