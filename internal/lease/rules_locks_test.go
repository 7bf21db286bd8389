package lease

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestHoldIsTwoRowLocks(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a", "b")
	l := s.lane()
	h := s.claim(l, "b")
	require.Equal(t, []string{"b", "b/2"}, s.Locked())
	const key = "SELECT FROM pgfifo.queue_groups WHERE group_id = 'b' FOR KEY SHARE"
	require.False(t, s.Session().Waits(key), "a foreign key of somebody's does not wait")

	// In the same step the old ones are freed and the new ones taken.
	h = s.step(l, succeed(h), &Request{Key: group("a")})
	require.Equal(t, int64(1), h.ID)
	require.Equal(t, []string{"a", "a/1"}, s.Locked())
	s.end(l)
	require.Empty(t, s.Locked())
}

func TestMissedClaimIsFreedByTheNextStep(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "b")
	operator := s.Session()
	operator.Do("BEGIN")
	operator.Do("SELECT FROM pgfifo.jobs WHERE id = 1 FOR UPDATE")
	l := s.lane()

	require.Nil(t, s.step(l, nil, &Request{Key: group("a")}))
	require.Equal(t, []string{"a", "a/1"}, s.Locked(), "the group is locked, though its head cannot be")

	require.Equal(t, int64(2), s.claim(l, "b").ID)
	require.Equal(t, []string{"b", "a/1", "b/2"}, s.Locked())

	require.True(t, s.misses(l, "a"))
	require.Equal(t, []string{"a/1"}, s.Locked())
}

// A second claim of a held group misses, and takes nothing from the one who holds it; so does one of a group without
// jobs, without a row, or with none above the floor.
func TestClaimMisses(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "empty")
	s.Exec("DELETE FROM pgfifo.jobs WHERE group_id = 'empty'")
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'no row', '')", queue)
	holder, other := s.lane(), s.lane()
	h := s.claim(holder, "a")
	for _, id := range []string{"a", "empty", "no row", "never seen"} {
		h := s.step(other, nil, &Request{Key: group(id)})
		require.Nil(t, h, id)
		if id != "empty" { // the group is locked until the end: it is there
			require.Equal(t, []string{"a", "a/1"}, s.Locked(), id)
		}
		s.end(other)
	}
	s.end(holder)
	hold := s.step(other, nil, &Request{Key: h.Key, Floor: 1, Learned: math.MaxInt64})
	require.Nil(t, hold)
	s.end(other)
	require.False(t, s.misses(other, "a"))
}

// Producers wait neither for a running job, nor for each other where a group is new.
func TestEnqueueDoesNotWait(t *testing.T) {
	s, _, _ := held(t, 2)
	for _, c := range []*pgtest.Session{s.Session(), s.Session()} {
		c.Do("BEGIN")
		for _, id := range []string{"a", "brand-new", "a"} {
			require.False(t, c.Waits(s.Statement("enqueue"),
				[]string{queue}, []string{id}, [][]byte{{}}, []int64{0}, []int32{0}, nil, nil, nil, nil), id)
		}
	}
}

func TestPauseDoesNotWait(t *testing.T) {
	s, l, h := held(t, 2)
	c, pause := s.Session(), s.Statement("pause")
	for range 2 {
		require.False(t, c.Waits(pause, queue, "a", "why", 10))
		require.False(t, c.Waits(pause, queue, "", "all", 10))
	}

	// The running job ends normally, and the next does not begin.
	require.True(t, s.step(l, succeed(h), &Request{Key: group("a")}).Paused)

	// A pause on the group's own row would have waited.
	require.True(t, c.Waits("UPDATE pgfifo.queue_groups SET created_at = created_at WHERE group_id = 'a'"))
	require.False(t, c.Waits(s.Statement("resume"), queue, "a"))
	s.end(l)
	require.True(t, s.claim(l, "a").Paused, "by its queue")
}
