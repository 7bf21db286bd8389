package schedule

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func ready(ids ...string) (cs []Candidate) {
	for i, id := range ids {
		cs = append(cs, Candidate{Key: group(id), ID: int64(i + 1)})
	}
	return cs
}

// roomyTurns has room for all.
func roomyTurns() *Turns {
	return NewTurns(100)
}

// drained takes the turns that are in line, and returns their groups.
func drained(t *Turns) (ids []string) {
	for turn := t.TryNext(); turn != nil; turn = t.TryNext() {
		ids = append(ids, turn.GroupID)
	}
	return ids
}

// newTurns has room for all, and some of it in line. It has the test run beside others.
func newTurns(t *testing.T, cs ...Candidate) *Turns {
	t.Helper()
	t.Parallel()
	turns := roomyTurns()
	turns.Offer(cs)
	return turns
}

// announced returns new Turns, and that of a group which was announced.
func announced(t *testing.T, key groups.Key, id int64) (*Turns, *Turn) {
	t.Helper()
	turns := newTurns(t)
	turns.Announce(key, id)
	return turns, turns.TryNext()
}

// bubble runs a test beside others in a bubble of testing/synctest: its sleeps move a clock of their own, and take no
// time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, test)
}

func woken(t *Turns) bool {
	select {
	case <-t.wake:
		return true
	default:
		return false
	}
}

func TestTurnsGoRound(t *testing.T) {
	turns := newTurns(t)
	require.Equal(t, 3, turns.Offer(ready("a", "b", "c")))
	require.Zero(t, turns.Offer(ready("a", "b", "c")), "no news")
	var order []string
	for i := range 7 {
		turn := turns.TryNext()
		order = append(order, turn.GroupID)
		turns.Done(turn, Outcome{Finished: int64(i + 1), More: true})
	}
	require.Equal(t, []string{"a", "b", "c", "a", "b", "c", "a"}, order)
	require.Equal(t, []string{"b", "c", "a"}, drained(turns))
}

// of says that the groups are another queue's.
func of(queue string, cs []Candidate) []Candidate {
	for i := range cs {
		cs[i].Queue = queue
	}
	return cs
}

// Queues take turns, however many groups each has; so does one whose group appears when the others' have waited long.
func TestQueuesGoRound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		turns := roomyTurns()
		turns.Offer(ready("a", "b", "c", "d"))
		turns.Offer(of("x", ready("e", "f")))
		var order []string
		for range 3 {
			order = append(order, turns.TryNext().GroupID)
		}
		turns.Offer(of("y", ready("g")))
		orphan := of("z", ready("orphan"))
		orphan[0].Orphan = true
		turns.Offer(orphan)
		require.Equal(t, []string{"a", "e", "b"}, order)
		require.Equal(t, []string{"orphan", "f", "c", "g", "d"}, drained(turns))
		require.Zero(t, turns.line.n)
	})
}

// A queue whose groups fill the line leaves room for what is announced of another.
func TestFullLineHasRoomForOtherQueues(t *testing.T) {
	t.Parallel()
	turns := NewTurns(2)
	turns.Offer(ready("a", "b", "c"))
	turns.Announce(group("d"), 1)
	turns.Announce(groups.Key{Queue: "x", GroupID: "e"}, 1)
	require.Equal(t, []string{"a", "e", "b", "c"}, drained(turns))
}

func TestTurnWithoutMoreIsForgotten(t *testing.T) {
	turns := newTurns(t, ready("a")...)
	turns.Done(turns.TryNext(), Outcome{Finished: 1})
	require.Nil(t, turns.TryNext())
	require.Equal(t, 1, turns.Offer(ready("a")), "it can come again")

	// One that was announced while a lane had it comes again by itself.
	turn := turns.TryNext()
	turns.Announce(group("a"), 2)
	require.Nil(t, turns.TryNext(), "a lane has it")
	turns.Done(turn, Outcome{Finished: 1})
	require.Equal(t, []string{"a"}, drained(turns))
}

// A group that is worked while the first walk is still under way has its next turn behind those found meanwhile, not
// after the next walk.
func TestTurnsDuringTheFirstWalk(t *testing.T) {
	t.Parallel()
	turns := NewTurns(100)
	turns.Offer(ready("a", "b"))
	a := turns.TryNext()
	turns.Done(a, Outcome{Finished: 1, More: true})
	turns.Offer(ready("c"))
	require.Equal(t, []string{"b", "c", "a"}, drained(turns), "a has had its turn")

	turns.rooms.walked(queue, true) // from now on, whoever comes later waits longer
	turns.Offer(ready("d"))
	d := turns.TryNext()
	turns.Done(d, Outcome{Finished: 1, More: true})
	turns.Offer(ready("e"))
	require.Equal(t, []string{"d", "e"}, drained(turns))
}

// While the line cannot hold every ready group, one that was worked must not keep out those that wait outside.
func TestTurnsBeforeTheWalkIsComplete(t *testing.T) {
	t.Parallel()
	turns := NewTurns(2)
	turns.rooms.walked(queue, false)
	turns.Offer(ready("a", "b"))
	for range quantum - 1 {
		for _, id := range []string{"a", "b"} {
			turn := turns.TryNext()
			require.Equal(t, id, turn.GroupID)
			turns.Done(turn, Outcome{Finished: 1, More: true})
		}
	}
	a := turns.TryNext()
	turns.Done(a, Outcome{Finished: 1, More: true})
	require.Equal(t, []string{"b"}, drained(turns))
	require.True(t, woken(turns), "the line ran low")

	// Except if nobody else is there.
	turns.Offer(ready("c"))
	turns.Done(turns.TryNext(), Outcome{Finished: 2, More: true})
	require.Equal(t, []string{"c"}, drained(turns))
}

func TestTurnsThatAreDueLater(t *testing.T) {
	turns := newTurns(t)
	require.Equal(t, time.Duration(-1), turns.Due())
	cs := ready("late", "soon", "now")
	cs[0].DueIn, cs[1].DueIn = time.Hour, time.Nanosecond
	require.Equal(t, 1, turns.Offer(cs))
	require.Len(t, turns.parked.earlier, 1, "the next time has changed")
	require.InDelta(t, time.Hour, turns.Due(), float64(time.Minute))
	require.Equal(t, []string{"now", "soon"}, drained(turns))

	// Found again as it was: no news. With another head, or ready: it is.
	require.Zero(t, turns.Offer(cs[:1]))
	cs[0].DueIn = 0
	require.Equal(t, 1, turns.Offer(cs[:1]))
	require.Equal(t, time.Duration(-1), turns.Due())
	turn := turns.TryNext()
	require.Equal(t, "late", turn.GroupID)

	// A lane found that the head is not due; a lower id that is announced need not wait for it.
	turns.Done(turn, Outcome{DueIn: time.Hour})
	turns.Announce(turn.Key, 1)
	require.Nil(t, turns.TryNext())
	turns.Announce(turn.Key, 0)
	require.Equal(t, []string{"late"}, drained(turns))
}

func TestTurnsAreDueInOrder(t *testing.T) {
	turns := newTurns(t)
	past := time.Now().Add(-time.Minute)
	for i, id := range []string{"e", "c", "a", "gone", "d", "b"} {
		turns.park(&Turn{Key: group(id)}, past.Add([]time.Duration{5, 3, 1, 1, 4, 2}[i]))
	}
	turns.unlink(turns.known[group("gone")])
	require.Equal(t, time.Duration(-1), turns.Due())
	require.Equal(t, []string{"a", "b", "c", "d", "e"}, drained(turns))
}

// Memory is for so many groups that are not due, and half of it for those that are due soon.
func TestTurnsParkSoMany(t *testing.T) {
	turns := newTurns(t)
	turns.parked.soon = time.Minute
	offer := func(n int, in time.Duration) {
		cs := make([]Candidate, n)
		for i := range cs {
			cs[i] = Candidate{Key: group(fmt.Sprint(in, i)), ID: 1, DueIn: in}
		}
		require.Zero(t, turns.Offer(cs))
		require.Len(t, turns.known, turns.parked.heap.Len())
	}
	offer(maxParked/2+1, time.Hour)
	require.Equal(t, maxParked/2, turns.parked.heap.Len())
	offer(maxParked, 50*time.Second)
	require.Equal(t, maxParked, turns.parked.heap.Len())
}

func TestTurnsThatOthersHold(t *testing.T) {
	turns := newTurns(t)
	cs := ready("a", "b", "c", "mine", "missed")
	cs[0].Holder, cs[1].Holder, cs[2].Holder = 7, 7, 8
	require.Equal(t, 2, turns.Offer(cs))
	mine, missed := turns.TryNext(), turns.TryNext()
	turns.Done(missed, Outcome{Missed: true})

	xids, unknown := turns.watched.holders(turns.poll)
	require.ElementsMatch(t, []int64{7, 8}, xids)
	require.Equal(t, []groups.Key{missed.Key}, unknown)
	require.Equal(t, 4, turns.View().Watched)
	ended, orphans := turns.watched.by(map[int64]bool{7: true, 9: false})
	require.ElementsMatch(t, []groups.Key{group("a"), group("b")}, ended)
	require.Equal(t, map[groups.Key]bool{group("a"): true, group("b"): true}, orphans)
	ended, orphans = turns.watched.by(map[int64]bool{8: false})
	require.Equal(t, []groups.Key{group("c")}, ended)
	require.Empty(t, orphans, "its holder committed")
	ended, _ = turns.watched.by(nil)
	require.Empty(t, ended)

	// The walk sees what this process itself holds, too.
	cs[3].Holder = 9
	turns.Offer(cs[3:4])
	require.Equal(t, 4, turns.View().Watched)

	turns.Recheck([]groups.Key{group("a"), missed.Key, mine.Key, group("never seen")})
	require.Equal(t, 2, turns.View().Watched)
	require.Nil(t, turns.TryNext())
	cs[1].Holder = 0
	require.Equal(t, 1, turns.Offer(cs[1:2]), "free again")
	turns.Done(mine, Outcome{Finished: 4, More: true})
	require.Equal(t, []string{"b", "mine"}, drained(turns))
}

// A group that was announced may have no row yet: if its claim misses, the scout is to look at once.
func TestHintedTurns(t *testing.T) {
	turns, turn := announced(t, group("a"), 5)
	require.True(t, turn.hinted)
	require.False(t, turns.View().Hinted)
	woken(turns)
	turns.Done(turn, Outcome{Missed: true})
	require.True(t, turns.View().Hinted)
	require.True(t, woken(turns))
	turns.Recheck([]groups.Key{turn.Key})
	require.Equal(t, 1, turns.Offer(ready("a")))
	require.False(t, turns.TryNext().hinted)
}

func TestAnnounceBeyondTheLimit(t *testing.T) {
	t.Parallel()
	turns := NewTurns(2)
	turns.setScout([]string{queue}, 0, 0)
	turns.rooms.walked(queue, true)
	for _, id := range []string{"a", "b", "c"} {
		turns.Announce(group(id), 1)
	}
	require.Zero(t, turns.View().Room)
	require.Equal(t, []string{"a", "b"}, drained(turns))
	require.True(t, woken(turns), "there is more than the line could hold")
}

// A lower id that appears while a lane works the group must not be hidden by the floor that its job leaves behind.
func TestFloorIsNotRaisedOverALateJob(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"done": false, "again": true}, func(t *testing.T, again bool) {
		turns, turn := announced(t, group("a"), 5)
		turns.PutBack(group("a"), 3)
		o := Outcome{Finished: 5, More: true}
		if again {
			require.True(t, turns.Again(turn, o))
		} else {
			turns.Done(turn, o)
			turn = turns.TryNext()
		}
		require.Empty(t, turns.floors.fresh)
		turns.Done(turn, Outcome{Finished: 6, More: true})
		require.Equal(t, int64(6), turns.floors.fresh[group("a")].next.id)
	})
}

func TestAgain(t *testing.T) {
	turns := newTurns(t, ready("a")...)
	turn := turns.TryNext()
	for _, o := range []Outcome{{}, {Missed: true, More: true}, {DueIn: 1, More: true}, {Finished: 1}} {
		require.False(t, turns.Again(turn, o), o)
	}
	require.True(t, turns.Again(turn, Outcome{Finished: 1, More: true}))
	require.Equal(t, int64(1), turns.floors.fresh[turn.Key].next.id)
	turns.Announce(turn.Key, 2)
	require.True(t, turns.Again(turn, Outcome{Finished: 2}), "announced meanwhile")
	require.False(t, turns.Again(turn, Outcome{Finished: 2}))
	require.True(t, turns.View().Worked)
	require.False(t, turns.View().Worked)
	turns.Done(turn, Outcome{Finished: 2})
	require.Nil(t, turns.TryNext())
}
