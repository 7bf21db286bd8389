package schedule

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// urgent gives candidates a priority.
func urgent(priority int, cs []Candidate) []Candidate {
	for i := range cs {
		cs[i].Priority = priority
	}
	return cs
}

func TestPriorityGoesFirst(t *testing.T) {
	turns := newTurns(t, ready("a", "b")...)
	turns.Offer(urgent(3, ready("c", "d")))
	turns.Offer(urgent(MaxPriority, ready("e")))
	turns.Offer(urgent(1, ready("f")))
	require.Equal(t, []string{"e", "c", "d", "f", "a", "b"}, drained(turns))
}

// Of ten turns one is that of the group which waits longest, whatever its priority, however many there are of a higher
// one.
func TestGuaranteedPart(t *testing.T) {
	pgtest.OverAll(t, map[string]Batch{"one by one": {}, "in company": {Groups: 7}}, func(t *testing.T, batch Batch) {
		t.Parallel()
		turns := NewTurns(1000)
		turns.SetBatch(queue, batch)
		turns.Offer(ready("a", "b", "c", "d", "e"))
		turns.Offer(urgent(2, ready("f", "g")))
		for i := range 1000 {
			turns.Offer(urgent(9, ready(fmt.Sprint(i))))
		}
		var order []string
		for len(order) < 70 {
			turn := turns.TryNext()
			for _, u := range turn.All() {
				order = append(order, u.GroupID)
			}
		}
		var others []string
		for i, id := range order[:70] {
			if i%guaranteed == guaranteed-1 {
				others = append(others, id)
			}
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f", "g"}, others)
		require.Equal(t, "63", turns.TryNext().GroupID)
	})
}

// It is its turn, too, if its head has got another priority since it came, and if it was announced before the others
// were found.
func TestGuaranteedPartOfTheOldest(t *testing.T) {
	offer := func(priority int) func(*Turns) {
		return func(turns *Turns) {
			turns.floors.looks++
			turns.Offer(urgent(priority, ready("oldest")))
		}
	}
	orphan := func(turns *Turns) { turns.Offer([]Candidate{{Key: group("orphan"), ID: 1, Orphan: true}}) }
	pgtest.OverAll(t, map[string][]func(*Turns){
		"as it came": {offer(0), func(*Turns) {}},
		"raised":     {offer(0), offer(1)},
		"lowered":    {offer(2), offer(1)},
		"behind one": {offer(0), orphan},
		"announced":  {func(turns *Turns) { turns.Announce(group("oldest"), 1) }, func(*Turns) {}},
	}, func(t *testing.T, row []func(*Turns)) {
		t.Parallel()
		turns := NewTurns(10_000)
		row[0](turns)
		for i := range 30 {
			turns.Offer(ready(fmt.Sprint("plain", i)))
			turns.Offer(urgent(1, ready(fmt.Sprint("low", i))))
			turns.Offer(urgent(9, ready(fmt.Sprint("high", i))))
		}
		row[1](turns)
		require.Contains(t, drained(turns)[:2*guaranteed], "oldest")
	})
}

// The priority of a head counts for nothing that is behind it; one that is to be tried again keeps it.
func TestPriorityEndsWithItsJob(t *testing.T) {
	turns := newTurns(t, ready("b", "c")...)
	turns.Offer(urgent(5, ready("a")))
	turn := turns.TryNext()
	require.Equal(t, "a", turn.GroupID)
	turns.Done(turn, Outcome{Priority: 5, DueIn: 1})
	for turns.parked.heap.Len() > 0 {
		turns.Due()
	}
	turn = turns.TryNext()
	require.Equal(t, "a", turn.GroupID)
	turns.Done(turn, Outcome{Finished: 1, More: true})
	require.Equal(t, []string{"b", "c", "a"}, drained(turns))
}

// A group that is in line moves when a look finds that its head has a priority, or has none any more; not for a look
// that is older than what a lane has done.
func TestPriorityOfAGroupInLine(t *testing.T) {
	turns := newTurns(t, ready("a", "b", "c", "d")...)
	turns.rooms.walked(queue, true)
	turns.Done(turns.TryNext(), Outcome{Finished: 1, More: true}) // a, in the other part of the line
	turns.Offer(urgent(4, ready("d", "a", "c")))
	require.Equal(t, 2, turns.line.row(queue).ranked, "what is found of a is older")
	turns.floors.looks++
	turns.Offer(urgent(6, ready("c", "a")))
	turns.Offer(urgent(0, ready("d")))
	require.Equal(t, []string{"c", "a", "b", "d"}, drained(turns))
}

// A group whose worker has died goes first of its priority.
func TestOrphansGoFirst(t *testing.T) {
	pgtest.OverEach(t, []int{0, 4}, func(t *testing.T, priority int) {
		turns := newTurns(t, urgent(priority, ready("a", "b", "c"))...)
		require.Equal(t, group("a"), turns.TryNext().Key)
		orphan := urgent(priority, ready("orphan"))
		orphan[0].Orphan = true
		turns.Offer(orphan)
		turns.Offer(urgent(priority, ready("d")))
		require.Equal(t, []string{"orphan", "b", "c", "d"}, drained(turns))
	})
}

// Shares have their parts by time, whatever the priorities; these count inside of each.
func TestPriorityInsideAShare(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		turns.SetShares(queue, Shares{Of: tenants})
		turns.Offer(groupsOf("low", 4))
		turns.Offer(urgent(1, groupsOf("high", 3)))
		last := urgent(2, groupsOf("high", 4)[3:])
		turns.Offer(last)
		var order []string
		for turn := turns.TryNext(); turn != nil; turn = turns.TryNext() {
			order = append(order, turn.GroupID)
		}
		high := slices.DeleteFunc(slices.Clone(order), func(id string) bool { return id[:3] == "low" })
		require.Equal(t, []string{"high/00003", "high/00000", "high/00001", "high/00002"}, high)
		for i := 0; i < len(order); i += 2 {
			require.NotEqual(t, order[i][:3], order[i+1][:3], "%v", order)
		}
	})
}

// A full share takes in a group of another priority, as long as there are not many of that.
func TestFullShareHasRoomForPriorities(t *testing.T) {
	t.Parallel()
	turns := NewTurns(4)
	turns.SetShares(queue, Shares{Of: tenants})
	offer := func(cs []Candidate) int { return turns.Offer(turns.admit(cs, nil)) }
	offer(groupsOf("a", 10))
	require.Equal(t, 4, turns.line.n)
	require.Equal(t, 1, offer(urgent(1, groupsOf("a", 11)[10:])))
	require.Equal(t, "a/00010", turns.TryNext().GroupID)
}

// What is announced with a priority is looked at before it goes first, unless a lane waits for work.
func TestUrge(t *testing.T) {
	turns := newTurns(t, ready("a")...)
	turns.Urge(group("b"), 2)
	require.True(t, turns.View().Hinted)
	_, unknown := turns.watched.holders(turns.poll)
	turns.Recheck(unknown)
	turns.Offer(urgent(1, ready("b")))
	turns.Urge(group("a"), 3)
	require.Equal(t, []string{"b", "a"}, drained(turns))
	ch := make(chan *Turn, 1)
	turns.waiting = append(turns.waiting, ch)
	turns.Urge(group("c"), 2)
	require.Equal(t, "c", (<-ch).GroupID)
}
