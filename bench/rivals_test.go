package main

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testDatabase(t *testing.T) *database {
	t.Helper()
	db, err := openDatabase(t.Context(), serveShared, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.close()) })
	return db
}

// lineOf is the first result of a system that was compared with another, or with nothing.
func lineOf(t *testing.T, results []Result, system, to string) Result {
	t.Helper()
	for _, r := range results {
		if r.System == system && r.RatioTo == to {
			require.Positive(t, r.Rate, system)
			require.Equal(t, to != "", r.Ratio > 0, system)
			return r
		}
	}
	require.Failf(t, "no line", "%s to %q in %v", system, to, results)
	return Result{}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	results := run(t, "drain", "-jobs", "600", "-groups", "20", "-lanes", "4", "-rounds", "2")
	ceiling := "ceiling (Go)"
	if findPgbench() != "" {
		ceiling = "ceiling (pgbench)"
		lineOf(t, results, "pgfifo", "ceiling (Go)")
		lineOf(t, results, "ceiling (Go)", ceiling)
	}
	require.InDelta(t, 0.6, lineOf(t, results, "pgfifo", ceiling).Goal[0].Value, 0)
	require.InDelta(t, 3, lineOf(t, results, "pgfifo, batches of 10", "River").Goal[0].Value, 0)
	require.InDelta(t, 6, lineOf(t, results, "pgfifo, batches of 50", "River").Goal[0].Value, 0)
	lineOf(t, results, "pgfifo, 10 groups at once", "River")
	lineOf(t, results, "pgfifo, 50 groups at once", "River")
	lineOf(t, results, "River", "pgfifo")
	lineOf(t, results, "Watermill", "pgfifo")
	lineOf(t, results, ceiling, "")
	require.Contains(t, lineOf(t, results, "naive", "pgfifo").Extra, "out_of_turn")
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	results := run(t, "backlog", "-backlogs", "3000,300", "-groups", "30", "-spread", "5,30,4000,5000", "-lanes", "4",
		"-jobs", "400", "-rounds", "2")
	lineOf(t, results, "pgfifo at 300", "")
	lineOf(t, results, "pgfifo in 5 groups", "")
	lineOf(t, results, "pgfifo at 3000", "pgfifo in 5 groups")
	require.InDelta(t, 0.9, lineOf(t, results, "pgfifo at 3000", "pgfifo at 300").Goal[0].Value, 0)
	require.InDelta(t, 0.9, lineOf(t, results, "pgfifo in 3000 groups", "pgfifo in 5 groups").Goal[0].Value, 0)
	lineOf(t, results, "naive at 300", "")
	lineOf(t, results, "naive at 3000", "naive at 300")
	require.Len(t, results, 7, "more groups than jobs are there once")
	for _, r := range results[:5] {
		require.Positive(t, r.Extra["discovery_share"], "the statements of internal/schedule are not recognized")
		require.Less(t, r.Extra["discovery_share"], 1.0)
	}
}

func TestHot(t *testing.T) {
	t.Parallel()
	results := run(t, "hot", "-jobs", "220", "-rounds", "1")
	inGo, best := "the same transaction (Go)", "the same transaction (Go)"
	if findPgbench() != "" {
		best = "the same transaction (pgbench)"
		lineOf(t, results, "pgfifo", inGo)
		lineOf(t, results, inGo, best)
	}
	lineOf(t, results, best, "")
	require.InDelta(t, 0.8, lineOf(t, results, "pgfifo", best).Goal[0].Value, 0)
	require.InDelta(t, 5, lineOf(t, results, "pgfifo, batches of 10", "pgfifo").Goal[0].Value, 0)
}

func TestRelaxed(t *testing.T) {
	t.Parallel()
	results := run(t, "relaxed", "-jobs", "50", "-rounds", "1")
	lineOf(t, results, "pgfifo", "")
	lineOf(t, results, "pgfifo, relaxed", "pgfifo")
	require.Len(t, results, 4)
}

func TestGroupLimit(t *testing.T) {
	t.Parallel()
	results := run(t, "group-limit", "-jobs", "60", "-rounds", "1", "-takes", "5ms")
	require.Len(t, results, 5)
	lineOf(t, results, "one group, GroupLimit 16", "one group, GroupLimit 1")
	lineOf(t, results, "1000 groups, GroupLimit 4", "1000 groups, GroupLimit 1")
}

func TestRivals(t *testing.T) {
	t.Parallel()
	db := testDatabase(t)
	naive := newNaive(db, 10, 4)
	for _, r := range []rival{
		newRiver(db, riverSettings{best: true}), newRiver(db, riverSettings{workers: 10}), newWatermill(db, 4), naive,
	} {
		t.Run(r.name(), func(t *testing.T) {
			require.NoError(t, r.prepare(t.Context()))
			drain := drainRival(db, r)
			for range 2 {
				took, err := drain(t.Context(), 300)
				require.NoError(t, err)
				require.Positive(t, took)
			}
			require.NoError(t, r.insert(t.Context(), 600))
			workUntil(t, r, 600)
		})
	}
	require.Zero(t, naive.violations())
}

// workUntil runs a rival until it works a number. One that was worked already may come again: a stop can fall between
// its end and the commit.
func workUntil(t *testing.T, r rival, number int64) {
	t.Helper()
	var once sync.Once
	seen := make(chan struct{})
	handle := func(n int64) {
		if n == number {
			once.Do(func() { close(seen) })
		}
	}
	require.NoError(t, r.run(t.Context(), handle, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		select {
		case <-seen:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
}

func TestRollCountsOnce(t *testing.T) {
	t.Parallel()
	l := newRoll(10, 2)
	l.call(9) // again, from the drain before
	l.call(10)
	l.call(10)
	require.EqualValues(t, 1, l.count.Load())
	l.call(11)
	took, err := l.wait(t.Context(), 0)
	require.NoError(t, err)
	require.Less(t, took, time.Minute)
	l.call(12)
	require.ErrorContains(t, <-l.unsettled, "number 12, and there are 2 from 10")
}

func TestRollExtrapolates(t *testing.T) {
	t.Parallel()
	l := newRoll(0, 10)
	_, err := l.wait(t.Context(), time.Millisecond)
	require.ErrorIs(t, err, errNone)
	for i := range int64(5) {
		l.call(i)
	}
	took, err := l.wait(t.Context(), time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, 2*time.Millisecond, took)
}

func TestNaiveAccountsViolations(t *testing.T) {
	t.Parallel()
	q := newNaive(nil, 2, 1)
	q.begin(0)()
	q.begin(1)()
	q.begin(4)() // 2 was cleared
	require.Zero(t, q.violations())
	q.begin(2)()
	require.EqualValues(t, 1, q.violations(), "4 was before")
	end := q.begin(6)
	q.begin(8)()
	end()
	require.EqualValues(t, 2, q.violations(), "beside 6")
}
