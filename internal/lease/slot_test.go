package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// slot steps to a claim of these groups with a slot.
func (s *stage) slot(l *Lane, calls []Call, ids ...string) *Hold {
	s.Helper()
	next := request(ids...)
	next.Slot = true
	return s.step(l, calls, next)
}

// slots returns which of the queue's slots are free.
func (s *stage) slots() []int {
	s.Helper()
	return pgtest.Column[int](s.DB, "SELECT n::integer FROM pgfifo.slots ORDER BY n FOR UPDATE SKIP LOCKED")
}

// So many claims hold a job as there are slots, whatever a claim takes. One more finds none: it holds nothing, and the
// slot of the first to end is the next one's, in the same round trip too.
func TestSlots(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a", "b", "c", "d", "e", "f")
	s.limit(3)
	one, batch, many, more := s.lane(), s.lane(), s.lane(), s.lane()
	h := s.slot(one, nil, "a")
	require.Equal(t, int64(1), h.ID)
	require.NotEqual(t, OverLimit, one.Missed())
	next := request("b")
	next.Slot, next.Jobs = true, 2
	b := s.step(batch, nil, next)
	require.Len(t, b.Rest, 1)
	require.Len(t, s.slot(many, nil, "c", "d").Rest, 1)
	require.NotEqual(t, OverLimit, many.Missed())
	require.Empty(t, s.slots())

	held := s.Locked()
	for _, ids := range [][]string{{"e"}, {"e", "f"}} {
		require.Nil(t, s.slot(more, nil, ids...))
		require.Equal(t, OverLimit, more.Missed())
		require.Equal(t, held, s.Locked())
	}
	require.Equal(t, int64(7), s.slot(one, succeed(h), "a").ID)
	require.Empty(t, s.slots(), "freed and taken again")
	s.end(batch)
	require.Equal(t, []int{2}, s.slots())
	require.NotNil(t, s.slot(more, nil, "e"))
	require.NotEqual(t, OverLimit, more.Missed())
	require.Empty(t, s.slots())
	for _, l := range []*Lane{one, many, more} {
		s.end(l)
	}
	require.Equal(t, []int{1, 2, 3}, s.slots())
	require.Empty(t, s.Locked())
}

// A claim without a slot finds the jobs of a queue with a limit paused. One with a slot heeds a pause all the same.
func TestClaimWithoutASlot(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "b")
	s.limit(2)
	l := s.lane()
	for name, next := range map[string]*Request{
		"one": request("a"), "several": request("a", "b"), "a batch": {Key: group("a"), Jobs: 2},
	} {
		for _, paused := range []bool{false, true} {
			s.Exec("DELETE FROM pgfifo.pauses WHERE NOT limited")
			if paused {
				s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'a')", queue)
			}
			for _, next.Slot = range []bool{false, true} {
				h := s.step(l, nil, next)
				require.Equal(t, next.Slot && !paused, h.GroupID == "a" && h.Ready(),
					"%s, %v, %v", name, paused, next.Slot)
				s.end(l)
			}
		}
	}
	s.Exec("DELETE FROM pgfifo.pauses")
	require.True(t, s.claim(l, "a").Ready(), "no limit any more")
}

// A slot is not enough to look at a group that somebody else holds: he may free the head meanwhile.
func TestSlotAndNoGroup(t *testing.T) {
	pgtest.OverAll(t, map[string]*Request{
		"one": request("a"), "several": request("a", "b"), "a batch": {Key: group("a"), Jobs: 2},
	}, func(t *testing.T, next *Request) {
		s := newStage(t)
		s.Enqueue(2, "a")
		s.limit(2)
		other, l := s.Session(), s.lane()
		other.Do("BEGIN; SELECT FROM pgfifo.queue_groups WHERE group_id = 'a' FOR NO KEY UPDATE")
		next.Slot = true
		h := s.step(l, nil, next)
		require.Nil(t, h)
		require.NotEqual(t, OverLimit, l.Missed())
		require.Equal(t, []string{"a"}, s.Locked())
		require.Equal(t, []int{2}, s.slots())
		s.end(l)
		require.Equal(t, []int{1, 2}, s.slots())
	})
}

// What a claim leaves on slots is no evidence, and one that finds no slot covers none.
func TestSlotsAndEvidence(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "b")
	s.limit(1)
	dies, l := s.lane(), s.lane()
	require.NotNil(t, s.slot(dies, nil, "a"))
	s.Terminate(dies.pg().PID())

	holder := s.lane()
	require.NotNil(t, s.slot(holder, nil, "b"), "the slot of the dead")
	require.Empty(t, s.found(holder), "of another group")
	for range 3 {
		require.Nil(t, s.slot(l, nil, "a"))
		require.Equal(t, OverLimit, l.Missed())
	}
	s.end(holder)
	require.Equal(t, int64(1), s.slot(l, nil, "a").ID)
	require.Len(t, s.found(l), 1)
	s.end(l)
	s.slot(l, nil, "a")
	require.Empty(t, s.found(l), "once")
}

// A limit that is lowered or raised holds for the claims from then on.
func TestLimitThatChanges(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b", "c", "d")
	s.limit(3)
	lanes := []*Lane{s.lane(), s.lane(), s.lane()}
	for i, id := range []string{"a", "b", "c"} {
		require.NotNil(t, s.slot(lanes[i], nil, id))
	}
	s.limit(1)
	l := s.lane()
	s.end(lanes[1])
	require.Nil(t, s.slot(l, nil, "d"))
	require.Equal(t, OverLimit, l.Missed(), "slot 2 is none any more")
	s.end(lanes[0])
	require.NotNil(t, s.slot(l, nil, "d"))
	require.Nil(t, s.slot(lanes[0], nil, "a"))
	s.limit(2)
	require.NotNil(t, s.slot(lanes[0], nil, "a"))
}
