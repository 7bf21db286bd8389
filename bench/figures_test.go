package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.Zero(t, median(nil))
	require.InDelta(t, 2, median([]float64{9, 1, 2}), 0)
	require.InDelta(t, 3, median([]float64{9, 1, 2, 4}), 0)
}

// The machine gets slower from round to round, and b stays twice as fast as a.
func TestRatioIsMadePairByPair(t *testing.T) {
	t.Parallel()
	var order string
	member := func(name string, each time.Duration) *system {
		return &system{name: name, work: func(_ context.Context, n int) (time.Duration, error) {
			round := len(order) / 2
			order += name
			return time.Duration(n) * each << (3 * round), nil
		}}
	}
	a, b := member("a", 2*time.Millisecond), member("b", time.Millisecond)
	rates, err := alternate(t.Context(), 4, 12, []*system{a, b})
	require.NoError(t, err)
	require.Equal(t, "abbaabba", order)
	require.InDelta(t, 2, rates.ratio(b, a), 1e-9)
	require.Equal(t, "a", rates.result(b, a).RatioTo)
	require.Empty(t, rates.result(b, nil).RatioTo)
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
	require.ErrorContains(t, l.err(), "number 12, and there are 2 from 10")
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
	require.Zero(t, q.broken.Load())
	q.begin(2)()
	require.EqualValues(t, 1, q.broken.Load(), "4 was before")
	end := q.begin(6)
	q.begin(8)()
	end()
	require.EqualValues(t, 2, q.broken.Load(), "beside 6")
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
	sp := new(span)
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
