package schedule

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// together are groups of a queue of which so many jobs of a group may run at once.
func together(n int, ids ...string) []Candidate {
	cs := limited(ids...)
	for i := range cs {
		cs[i].GroupLimit = n
	}
	return cs
}

// run are together whose heads run elsewhere.
func run(n int, ids ...string) []Candidate {
	cs := together(n, ids...)
	for i := range cs {
		cs[i].Holder = 100
	}
	return cs
}

// leave is what a lane does that goes on elsewhere.
func leave(turns *Turns, turn *Turn, o Outcome) {
	turns.Free(turn.Queue)
	turns.Done(turn, o)
}

// Lanes join one after the other, each when the job before its own has started, until there are as many as may run.
func TestTeam(t *testing.T) {
	turns := newTurns(t, together(3, "a")...)
	var team []*Turn
	for id := range int64(3) {
		turn := turns.TryNext()
		require.NotNil(t, turn)
		require.True(t, turn.Request().GroupSlot)
		require.Nil(t, turns.TryNext(), "the job has not started")
		turns.Started(turn, id, true, false)
		team = append(team, turn)
	}
	require.Nil(t, turns.TryNext(), "the group is full")
	turns.Announce(group("a"), 9)
	require.Nil(t, turns.TryNext())
	turns.Offer(run(3, "a"))
	require.Nil(t, turns.TryNext())

	// A lane that has ended its job goes on with the group, if there was more, or something was announced since.
	require.True(t, turns.Again(team[0], Outcome{Finished: 1}))
	turns.Started(team[0], 3, false, false)
	require.False(t, turns.Again(team[0], Outcome{Finished: 3}))
	leave(turns, team[0], Outcome{Finished: 3})
	require.Nil(t, turns.TryNext())
	leave(turns, team[1], Outcome{Finished: 2, More: true})
	next := turns.TryNext()
	require.NotNil(t, next)

	// Of two that look for the next job one is enough; what the other has learned is not forgotten.
	leave(turns, team[2], Outcome{Finished: 2, More: true})
	require.Nil(t, turns.TryNext())
	leave(turns, next, Outcome{Missed: true})
	require.NotNil(t, turns.TryNext(), "there may be room since")
}

// A turn that found no room is tried again when a lane of the process has ended its job, or something is announced, or
// when a PollInterval is over, and not before.
func TestTeamThatIsFull(t *testing.T) {
	turns := newTurns(t)
	turns.poll = time.Hour
	turns.Offer(together(3, "a"))
	first := turns.TryNext()
	turns.Started(first, 1, true, false)
	miss := func() {
		t.Helper()
		turn := turns.TryNext()
		require.NotNil(t, turn)
		leave(turns, turn, Outcome{Missed: true})
		_, unknown := turns.watched.holders(turns.poll)
		turns.Recheck(unknown) // the scout looks
		turns.Offer(run(3, "a"))
		require.Nil(t, turns.TryNext())
		turns.Offer(run(3, "a"))
		require.Nil(t, turns.TryNext())
	}
	miss()
	turns.Announce(group("a"), 9)
	miss()
	require.True(t, turns.Again(first, Outcome{Finished: 1}), "there was one that found no room")
	turns.Started(first, 2, false, false)
	turns.mu.Lock()
	turns.known[group("a")].tried = time.Now().Add(-2 * time.Hour)
	turns.mu.Unlock()
	turns.Offer(run(3, "a"))
	miss()
	leave(turns, first, Outcome{Finished: 2})
	miss()
	_, unknown := turns.watched.holders(turns.poll)
	require.Empty(t, unknown, "no lane is left: its holder is watched")
	turns.Announce(group("a"), 10)
	miss()
	ended, _ := turns.watched.by(map[int64]bool{100: false})
	turns.Recheck(ended)
	turns.Offer(run(3, "a"))
	miss()
}

// A turn that met a job which somebody was about to start is tried again when it has started here, or soon.
func TestTeamBehindAStart(t *testing.T) {
	turns := newTurns(t, together(3, "a")...)
	first := turns.TryNext()
	turns.Started(first, 1, true, false)
	second := turns.TryNext()
	require.True(t, turns.Again(first, Outcome{Finished: 1, More: true}))
	leave(turns, second, Outcome{Missed: true, NextLocked: true})
	require.Nil(t, turns.TryNext())
	turns.Started(first, 2, true, false)
	for range tuning.Many - 1 {
		turn := turns.TryNext()
		require.NotNil(t, turn)
		leave(turns, turn, Outcome{Missed: true, NextLocked: true})
		require.Nil(t, turns.TryNext())
		deadline := time.Now().Add(pgtest.Patient)
		for turns.Due() >= 0 && time.Now().Before(deadline) {
			continue
		}
	}
	leave(turns, turns.TryNext(), Outcome{Missed: true, NextLocked: true})
	_, unknown := turns.watched.holders(turns.poll)
	require.Len(t, unknown, 1, "it takes long: the scout looks")
}

// A head that is not due holds the group: lanes that end do not go on, unless it is announced.
func TestTeamWhoseHeadWaits(t *testing.T) {
	turns := newTurns(t, together(2, "a")...)
	first := turns.TryNext()
	turns.Started(first, 1, true, false)
	second := turns.TryNext()
	turns.Started(second, 2, true, false)
	leave(turns, first, Outcome{DueIn: time.Hour, More: true})
	leave(turns, second, Outcome{Finished: 2, More: true})
	require.Nil(t, turns.TryNext())
	turns.PutBack(group("a"), 1)
	require.NotNil(t, turns.TryNext())
}

// The slots of groups are made when they are found, as many as there may be, and go with the groups. One that looks as
// if it was made for one message gets no more than it has jobs.
func TestSlotsOfGroups(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "~"+"0123456789ABCDEFGHIJKLMN")
	s.Exec("INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, group_limit) "+
		"VALUES ($1, 1, false, 2)", queue)
	s.Exec("INSERT INTO pgfifo.pauses (queue, limited) VALUES ($1, true)", queue)
	slots := func() []string {
		return pgtest.Column[string](s.DB, "SELECT left(group_id, 1) || n FROM pgfifo.group_slots ORDER BY 1")
	}
	turns, scout := s.scout(time.Hour)
	conn := s.Session().Conn
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a1", "a2", "~1", "~2"}, slots())
	s.Exec("UPDATE pgfifo.queues SET group_limit = 3")
	require.NoError(t, scout.Walk(t.Context(), conn))
	require.Equal(t, []string{"a1", "a2", "a3", "~1", "~2"}, slots(), "no more than jobs")
	require.True(t, turns.TryNext().Request().GroupSlot)

	s.Exec("DELETE FROM pgfifo.jobs")
	holder := s.Session()
	holder.Do("BEGIN")
	holder.Do("SELECT FROM pgfifo.group_slots WHERE group_id = 'a' AND n = 2 FOR NO KEY UPDATE")
	s.Exec("UPDATE pgfifo.queue_groups SET created_at = now() - interval '1 day'")
	s.collected()
	require.Equal(t, []string{"a2"}, slots(), "what somebody has is left")
	s.Exec("UPDATE pgfifo.queues SET group_limit = 2")
	s.Enqueue(1, "a")
	_, again := s.scout(time.Hour)
	require.NoError(t, again.Walk(t.Context(), conn))
	require.Equal(t, []string{"a1", "a2"}, slots(), "the others are made again")
}

// limited are groups of a queue that has a limit.
func limited(ids ...string) []Candidate {
	cs := ready(ids...)
	for i := range cs {
		cs[i].Slot = true
	}
	return cs
}

// over is what a lane does whose claim has found no slot.
func over(turns *Turns, turn *Turn) {
	turns.Over(turn.Queue)
	turns.Free(turn.Queue)
	turns.Done(turn, Outcome{Missed: true, Over: true})
}

func TestQueueOverItsLimit(t *testing.T) {
	turns := newTurns(t, limited("a", "b", "c", "d")...)
	turns.Offer(of("other", ready("a")))
	a, b := turns.TryNext(), turns.TryNext()
	if a.Queue == "other" {
		a = turns.TryNext()
	}
	if b.Queue == "other" {
		b = turns.TryNext()
	}
	require.True(t, a.HasSlot())
	require.True(t, a.Request().Slot)
	turns.Under(a.Queue)
	over(turns, b)
	require.Nil(t, turns.TryNext(), "it is at its limit, and what there was of the other queue is taken")
	_, unknown := turns.watched.holders(turns.poll)
	require.Len(t, unknown, 1, "the scout is to look at the group that found no slot")

	// A lane that has ended a job has freed a slot, and one may try.
	next, _ := turns.Swap(a, false)
	require.NotNil(t, next)
	require.Nil(t, turns.TryNext())
	turns.Done(a, Outcome{Finished: 1})

	// When the scout has looked, one may, and another one if that had success.
	turns.Recheck(unknown)
	turns.Offer(limited(b.GroupID))
	probe := turns.TryNext()
	require.NotNil(t, probe)
	require.Nil(t, turns.TryNext())
	turns.Under(probe.Queue)
	last := turns.TryNext()
	require.NotNil(t, last)
	require.Nil(t, turns.TryNext())
	over(turns, last)
	require.Nil(t, turns.TryNext())

	// So it is when a walk finds the group before the scout looks.
	turns.Offer(limited(last.GroupID))
	require.Equal(t, last.GroupID, turns.TryNext().GroupID)

	// A queue that has no limit any more waits for nothing.
	turns.Offer(limited("e", "f"))
	over(turns, last)
	require.Nil(t, turns.TryNext())
	turns.Offer(ready(last.GroupID))
	require.Len(t, drained(turns), 3)
}

// A group that the server refuses something about waits longer each time, also if it found no slot in between.
func TestTroubleOverALimit(t *testing.T) {
	turns := newTurns(t, limited("a")...)
	for n := 1; n <= 5; n++ {
		turn := turns.TryNext()
		over(turns, turn)
		_, unknown := turns.watched.holders(turns.poll)
		turns.Recheck(unknown) // the scout has looked
		turns.Offer(limited("a"))
		turn = turns.TryNext()
		require.Equal(t, "a", turn.GroupID)
		turns.Free(queue)
		turns.Done(turn, Outcome{Trouble: true})
		require.Equal(t, n, turns.known[group("a")].trouble.n)
		turns.mu.Lock() // its time has come
		turns.known[group("a")].at = time.Now()
		turns.mu.Unlock()
		turns.Due()
	}
}
