package schedule

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// staffed returns Turns of so many lanes, with bounds for queues.
func staffed(n int, bounds map[string]Lanes) *Turns {
	turns := roomyTurns()
	turns.SetConcurrency(n)
	for queue, b := range bounds {
		turns.SetLanes(queue, b)
	}
	return turns
}

// swap is Swap of a lane whose group has no more jobs.
func swap(turns *Turns, queue string) *Turn {
	turn, _ := turns.Swap(&Turn{Key: groups.Key{Queue: queue}}, false)
	return turn
}

func TestLanesAreBounded(t *testing.T) {
	t.Parallel()
	turns := staffed(4, map[string]Lanes{"a": {Max: 2}})
	turns.Offer(of("a", ready("1", "2", "3")))
	turns.Offer(of("b", ready("1")))
	require.Equal(t, "a", turns.TryNext().Queue)
	require.Equal(t, "b", turns.TryNext().Queue)
	require.Equal(t, "a", turns.TryNext().Queue)
	require.Nil(t, turns.TryNext(), "it has two")
	require.Equal(t, "3", swap(turns, "a").GroupID, "one of them goes on")
	turns.Free("a")
	require.Nil(t, turns.TryNext(), "nothing is left")
}

func TestLanesAreKept(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := staffed(3, map[string]Lanes{"b": {Min: 1}})
		turns.Offer(of("a", ready("1", "2", "3")))
		require.Equal(t, "a", turns.TryNext().Queue)
		require.Equal(t, "a", turns.TryNext().Queue)
		require.Nil(t, turns.TryNext(), "the third is b's")
		turns.Offer(of("b", ready("1", "2")))
		require.Equal(t, "b", turns.TryNext().Queue)
		require.Equal(t, "3", swap(turns, "a").GroupID, "b has what is kept for it")
		require.Equal(t, "2", swap(turns, "b").GroupID)
		require.Nil(t, swap(turns, "b"))
	})
}

// A lane that waits for a group takes one as soon as it may.
func TestBoundsThatChange(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*Turns){
		"another lane is free": func(turns *Turns) { turns.Free("a") },
		"the bound is higher":  func(turns *Turns) { turns.SetLanes("a", Lanes{Max: 2}) },
		"there is no bound":    func(turns *Turns) { turns.SetLanes("a", Lanes{}) },
	}, func(t *testing.T, change func(*Turns)) {
		t.Parallel()
		turns := staffed(2, map[string]Lanes{"a": {Max: 1}})
		turns.Offer(of("a", ready("1", "2")))
		require.Equal(t, "1", turns.TryNext().GroupID)
		got, _ := waiting(t, turns) // it waits, or is about to
		require.False(t, turns.View().Idle, "there is a group in line: the scout need not hurry")
		change(turns)
		require.Equal(t, "2", (<-got).GroupID)
	})
}

// A lane that works a queue leaves it, also a group with more jobs, when the queue has more than it may.
func TestLanesAreTakenAway(t *testing.T) {
	pgtest.OverAll(t, map[string]map[string]Lanes{
		"its own bound is lower":     {"a": {Max: 1}},
		"another queue keeps a lane": {"b": {Min: 1}},
	}, func(t *testing.T, bounds map[string]Lanes) {
		t.Parallel()
		turns := staffed(2, nil)
		turns.Offer(of("a", ready("1", "2")))
		a := turns.TryNext()
		require.NotNil(t, a)
		require.NotNil(t, turns.TryNext())
		_, stay := turns.Swap(a, true)
		require.True(t, stay)
		for queue, b := range bounds {
			turns.SetLanes(queue, b)
		}
		_, stay = turns.Swap(a, true)
		require.False(t, stay)
		turns.Free("a")
		_, stay = turns.Swap(a, true)
		require.True(t, stay, "the other one is gone")
	})
}

// Whatever lanes do, no queue has more than its Max, and whenever a lane is free, a queue with groups in line that has
// less than its Min gets it.
func TestLanesByChance(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "lanes")
		bounds, left := make(map[string]Lanes), n
		for _, q := range []string{"a", "b", "c"} {
			b := Lanes{Min: rapid.IntRange(0, min(2, left)).Draw(t, "min "+q)}
			if rapid.Bool().Draw(t, "bounded "+q) {
				b.Max = max(1, b.Min) + rapid.IntRange(0, 2).Draw(t, "more "+q)
			}
			bounds[q], left = b, left-b.Min
		}
		turns := staffed(n, bounds)
		turns.rooms.limit = 1 << 20
		working := make(map[string]int)
		var busy []string
		next := 0
		check := func() {
			for q, b := range bounds {
				if b.Max > 0 && working[q] > b.Max {
					t.Fatalf("%s has %d lanes, at most %d", q, working[q], b.Max)
				}
			}
		}
		take := func(turn *Turn) {
			if turn != nil {
				busy, working[turn.Queue] = append(busy, turn.Queue), working[turn.Queue]+1
			}
			check()
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op == 0:
				q := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "queue")
				next++
				turns.Offer(of(q, ready(fmt.Sprint(next))))
			case op == 1 && len(busy) < n:
				take(turns.TryNext())
			case op == 2 && len(busy) > 0:
				q := busy[0]
				if turn := swap(turns, q); turn != nil {
					busy, working[q] = busy[1:], working[q]-1
					take(turn)
				}
			case op == 3 && len(busy) > 0:
				turns.Free(busy[0])
				busy, working[busy[0]] = busy[1:], working[busy[0]]-1
			}
			for q, b := range bounds {
				row := turns.line.row(q)
				if len(busy) < n && working[q] < b.Min && row.len() > 0 && !turns.lanes.may(row) {
					t.Fatalf("%s has %d of the %d lanes that it keeps, and may not have another", q, working[q], b.Min)
				}
				if short := b.Min - working[q]; short > n-len(busy) {
					t.Fatalf("%s lacks %d lanes that it keeps, and %d are free", q, short, n-len(busy))
				}
			}
		}
	})
}
