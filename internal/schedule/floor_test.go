package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// trust has the scout find that nobody enqueues.
func trust(turns *Turns) {
	turns.floors.ask()
	turns.floors.answered(nil, false)
}

// again finishes jobs of a group, one by one. The first of three is the floor at their end.
func again(t *testing.T, turns *Turns, turn *Turn, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		trust(turns)
		require.True(t, turns.Again(turn, Outcome{Finished: id, More: true}))
	}
}

// A floor comes into force when all have ended who were writing to the jobs after its job was finished, and a claim
// from then has found nothing below it.
func TestFloorComesIntoForce(t *testing.T) {
	const prepared = "-1/7" // as the server calls a transaction that is prepared
	type row struct {
		writers [][]string // before each claim
		floor   int64      // at the last one
	}
	pgtest.OverAll(t, map[string]row{
		"not asked":         {nil, 0},
		"at once":           {[][]string{nil, nil, nil}, 1},
		"a short one":       {[][]string{nil, {"2/1"}, {"2/2"}, {"2/3"}}, 1},
		"a long one":        {[][]string{nil, {"2/1"}, {"3/1", "2/1"}, {"2/1"}, {"2/1"}}, 0},
		"its end":           {[][]string{nil, {"2/1"}, {"3/1", "2/1"}, {"3/1"}, {"3/1"}}, 1},
		"one from before":   {[][]string{{"2/1"}, {"2/1"}, {"2/1"}, {"2/1"}}, 0},
		"prepared":          {[][]string{nil, {"2/1"}, {prepared}, {prepared}, {prepared}}, 0},
		"prepared and gone": {[][]string{nil, {"2/1"}, {prepared}, nil, nil}, 1},
	}, func(t *testing.T, c row) {
		turns, turn := announced(t, group("a"), 1)
		id := int64(1)
		for _, writers := range c.writers {
			turns.floors.ask()
			turns.floors.answered(writers, slices.Contains(writers, prepared))
			require.True(t, turns.Again(turn, Outcome{Finished: id, More: true}))
			id++
		}
		require.Equal(t, c.floor, turn.floor.id)
		require.True(t, turns.Again(turn, Outcome{Finished: id, More: true}))
		require.GreaterOrEqual(t, turn.floor.id, c.floor)
	})
}

// While claims have snapshots in which all older transactions have ended, nobody needs to be asked for.
func TestFloorBySnapshots(t *testing.T) {
	type claim struct{ xid, oldest int64 }
	type row struct {
		claims []claim
		floor  int64
		stuck  bool // writers are to be asked for
	}
	pgtest.OverAll(t, map[string]row{
		"alone":             {[]claim{{50, 50}, {51, 51}, {52, 52}, {53, 53}}, 1, false},
		"at the third":      {[]claim{{50, 40}, {60, 45}, {70, 61}}, 1, false},
		"not before":        {[]claim{{50, 40}, {60, 45}, {70, 60}}, 0, false},
		"not by the second": {[]claim{{50, 50}, {60, 90}}, 0, false},
		"a long one":        {[]claim{{50, 40}, {51, 40}, {52, 40}, {53, 40}, {54, 40}, {55, 40}}, 0, true},
		"its end":           {[]claim{{50, 40}, {51, 40}, {52, 40}, {53, 40}, {54, 40}, {55, 40}, {56, 56}}, 1, true},
		"no snapshots":      {[]claim{{}, {}, {}, {}, {}, {}}, 0, true},
	}, func(t *testing.T, c row) {
		turns, turn := announced(t, group("a"), 1)
		for i, claim := range c.claims {
			seen := lease.Seen{XID: claim.xid, Oldest: claim.oldest}
			require.True(t, turns.Again(turn, Outcome{Finished: int64(i) + 1, More: true, Seen: seen}))
		}
		require.Equal(t, c.floor, turn.floor.id)
		require.Equal(t, c.stuck, turns.View().Unproven > 0)
	})
}

// A claim that began before the writers had ended may not have seen what they committed.
func TestFloorNeedsANewClaim(t *testing.T) {
	turns, turn := announced(t, group("a"), 5)
	require.True(t, turns.Again(turn, Outcome{Finished: 5, More: true}))
	trust(turns)
	require.True(t, turns.Again(turn, Outcome{Finished: 6, More: true}), "claimed before")
	require.Zero(t, turn.floor.id)
	require.True(t, turns.Again(turn, Outcome{Finished: 3, More: true}), "committed late, and seen")
	require.Zero(t, turn.floor.id)
	require.True(t, turns.Again(turn, Outcome{Finished: 7, More: true}))
	require.Equal(t, int64(5), turn.floor.id)
}

// A group that always has work is always with a lane: what appears below its floor must be found all the same.
func TestFloorOfBusyGroup(t *testing.T) {
	key := groups.Key{Queue: "q", GroupID: "g"}
	type row struct {
		meanwhile func(*Turns)
		floor     int64
	}
	pgtest.OverAll(t, map[string]row{
		"nothing":          {func(*Turns) {}, 10},
		"later announced":  {func(t *Turns) { t.Announce(key, 14) }, 10},
		"itself found":     {func(t *Turns) { t.Offer([]Candidate{{Key: key, ID: 13}}) }, 10},
		"lower announced":  {func(t *Turns) { t.PutBack(key, 5) }, 0},
		"between":          {func(t *Turns) { t.PutBack(key, 11) }, 0},
		"late notice":      {func(t *Turns) { t.Announce(key, 5) }, 10},
		"new announced":    {func(t *Turns) { t.Announce(key, 0) }, 10},
		"some put back":    {func(t *Turns) { t.Forget(key.Queue) }, 0},
		"elsewhere":        {func(t *Turns) { t.Forget("other") }, 10},
		"lower discovered": {func(t *Turns) { t.floors.looks++; t.Offer([]Candidate{{Key: key, ID: 5}}) }, 0},
		"time passed":      {func(t *Turns) { t.floors.born = time.Now().Add(-floorAge); t.View() }, 0},
	}, func(t *testing.T, c row) {
		turns, turn := announced(t, key, 10)
		again(t, turns, turn, 10, 11, 12)
		require.Equal(t, int64(10), turn.floor.id)

		c.meanwhile(turns) // a lane has job 13
		require.True(t, turns.Again(turn, Outcome{Finished: 13, More: true}))
		require.Equal(t, c.floor, turn.floor.id)

		again(t, turns, turn, 14, 15, 16)
		require.GreaterOrEqual(t, turn.floor.id, int64(10), "it is raised again by the next jobs")
	})
}

// Old floors are confirmed by one claim without them, also while somebody writes for long.
func TestFloorsAge(t *testing.T) {
	turns, turn := announced(t, group("a"), 10)
	again(t, turns, turn, 10, 11, 12)
	turns.floors.ask()
	turns.floors.answered([]string{"2/1"}, false)
	f := &turns.floors
	for id := int64(13); id < 30; id += 3 {
		f.age(f.born.Add(floorAge - 1))
		require.NotEmpty(t, f.fresh)
		f.age(f.born.Add(floorAge))
		require.Empty(t, f.fresh)
		require.True(t, turns.Again(turn, Outcome{Finished: id, More: true}), "claimed with it")
		require.Zero(t, turn.floor.id)
		require.True(t, turns.Again(turn, Outcome{Finished: id + 1, More: true}), "claimed without")
		require.Equal(t, int64(10), turn.floor.id)
		require.True(t, turns.Again(turn, Outcome{Finished: id + 2, More: true}))
		require.Equal(t, int64(10), turn.floor.id)
	}
	for range 2 {
		f.age(f.born.Add(floorAge))
	}
	require.Empty(t, f.fresh)
	require.Empty(t, f.old)
}

// Floors are in force while walks look under them in time. A group that is not worked any more loses its own after a
// while.
func TestFloorsAreLetGo(t *testing.T) {
	turns := newTurns(t)
	turns.rooms.walked(queue, true)
	finishAll(turns, "idle", 1, 2, 3)
	turns.Announce(group("busy"), 10)
	turn := turns.TryNext()
	again(t, turns, turn, 10, 11, 12)
	f := &turns.floors
	count := func() (n int) {
		for _, id := range []string{"idle", "busy"} {
			if f.of(group(id)).floor.id > 0 {
				n++
			}
		}
		return n
	}
	require.Equal(t, 2, count())
	for i := range int64(3) {
		turns.floors.checked(time.Now(), 0)
		require.NotEmpty(t, f.fresh, "not yet")
		f.swept = time.Now().Add(-floorAge)
		turns.floors.checked(time.Now(), 0)
		require.Equal(t, 2-min(int(i), 1), count())
		require.Positive(t, f.of(group("busy")).floor.id, "in force")
		again(t, turns, turn, 13+i)
	}
	require.Zero(t, f.of(group("idle")).floor)
	require.Len(t, f.fresh, 1)
	require.Len(t, f.old, 1)
}

// A head that was read before the floor was raised over it is no news. One that is there still when the scout looks
// again is.
func TestHeadFromBeforeTheFloor(t *testing.T) {
	turns, turn := announced(t, group("a"), 10)
	again(t, turns, turn, 10, 11, 12)
	require.Equal(t, int64(10), turn.floor.id)
	turns.floors.looks++
	again(t, turns, turn, 13, 14, 15, 16)
	require.Equal(t, int64(14), turn.floor.id)
	offer := func(id int64) int64 {
		turns.Offer([]Candidate{{Key: group("a"), ID: id}})
		return turns.floors.of(group("a")).floor.id
	}
	require.Equal(t, int64(14), offer(12), "it was there when the scout began to look")
	require.Zero(t, offer(10), "it was not")
	again(t, turns, turn, 17, 18, 19, 20)
	require.Equal(t, int64(18), turn.floor.id)
	require.Equal(t, int64(18), offer(17))
	turns.floors.looks++
	require.Equal(t, int64(18), offer(19))
	require.Zero(t, offer(17))
}

// A job that was finished with one claim may be told of twice: before the next claim of its group is sent, and when
// that has failed. What is known only then is not for the claim that has looked for it.
func TestJobThatIsToldOfTwice(t *testing.T) {
	pgtest.OverAll(t, map[string]int64{"all": 9, "a part of the batch": 8}, func(t *testing.T, finished int64) {
		turns, turn := announced(t, group("a"), 5)
		require.True(t, turns.Again(turn, Outcome{Finished: 5, More: true}))
		turns.floors.ask()
		turns.floors.answered([]string{"2/1"}, false) // it has drawn 4
		require.True(t, turns.Again(turn, Outcome{Finished: 6, More: true, Seen: lease.Seen{XID: 50, Oldest: 40}}))
		turns.floors.ask()
		turns.floors.answered(nil, false) // and has committed it
		last := Outcome{Finished: 9, More: true, Seen: lease.Seen{XID: 60, Oldest: 40}}
		require.True(t, turns.Again(turn, last))
		last.Finished = finished
		turns.Done(turn, last) // the claim has failed on the way
		require.Zero(t, turns.floors.of(turn.Key).floor)

		turn = turns.TryNext()
		turns.Done(turn, Outcome{Finished: 10, More: true})
		require.Equal(t, int64(5), turns.floors.of(turn.Key).floor.id, "that one has looked")
	})
}

// However many groups there are, the floors of the newest ones are kept, and no more than a bound.
func TestFloorsAreBounded(t *testing.T) {
	turns := newTurns(t)
	f := &turns.floors
	for i := range 3 * tuning.Known {
		f.raise(&Turn{Key: groups.Key{Queue: "q", GroupID: fmt.Sprint(i)}}, lease.Seen{}, 1)
		require.LessOrEqual(t, len(f.fresh), tuning.Known)
		require.LessOrEqual(t, len(f.old), tuning.Known+1)
	}
	require.NotZero(t, f.of(groups.Key{Queue: "q", GroupID: fmt.Sprint(3*tuning.Known - 1)}))
	require.NotZero(t, f.of(groups.Key{Queue: "q", GroupID: fmt.Sprint(2 * tuning.Known)}))
}

// A server that has lost its newest commits has jobs again that were finished. A floor from before is not for
// connections that were made since.
func TestFloorOfAServerThatForgot(t *testing.T) {
	pgtest.OverAll(t, map[string][]string{"one group": {"a"}, "many": {"a", "b"}}, func(t *testing.T, ids []string) {
		s := newStage(t)
		s.Enqueue(5, ids...)
		turns := roomyTurns()
		turns.SetBatch(queue, Batch{Groups: len(ids)})
		turns.Offer(ready(ids...))
		l := s.lane()
		for range 4 {
			trust(turns)
			turn := turns.TryNext()
			h := s.step(l, nil, turn.Request())
			require.Len(t, h.Rest, len(ids)-1)
			s.end(l)
			s.Exec("DELETE FROM pgfifo.jobs WHERE id = $1", h.ID)
			turns.Done(turn, Outcome{Finished: h.ID, More: true, Seen: h.Seen})
			for i, other := range turn.with {
				s.Exec("DELETE FROM pgfifo.jobs WHERE id = $1", h.Rest[i].ID)
				turns.Done(other, Outcome{Finished: h.Rest[i].ID, More: true, Seen: h.Rest[i].Seen})
			}
		}
		s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ($1, 'a', 1, '')", queue)
		turn := turns.TryNext()
		require.Greater(t, turn.floor.id, int64(1))
		h := s.step(s.lane(), nil, turn.Request())
		require.Equal(t, int64(1), h.ID)
	})
}

// finishAll finishes the jobs of a group one by one, and leaves it without any as far as the Turns know.
func finishAll(turns *Turns, id string, jobs ...int64) {
	turns.Announce(group(id), jobs[0])
	turn := turns.TryNext()
	for i, job := range jobs {
		trust(turns)
		turns.Done(turn, Outcome{Finished: job, More: i < len(jobs)-1})
		if i < len(jobs)-1 {
			turn = turns.TryNext()
		}
	}
}
