package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
