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

	// In the same step the old ones are freed and the new ones taken.
	h, settled, err := l.Step(t.Context(), succeed(h), &Request{Key: group("a")})
	require.NoError(t, err)
	require.True(t, settled)
	require.Equal(t, int64(1), h.ID)
	require.Equal(t, []string{"a", "a/1"}, s.Locked())
	s.end(l)
	require.Empty(t, s.Locked())
}

// The broken shape holds what it passed over: a job of a group that it never had.
func TestJoinHoldsMore(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "a", "b")
	first, second := s.Session(), s.Session()
	for _, c := range []*pgtest.Session{first, second} {
		c.Do(beginSQL)
		_, _, err := brokenShape.claim(t.Context(), c.Conn, "any")
		require.NoError(t, err)
	}
	require.Equal(t, []string{"a", "b", "a/1", "a/2", "b/3"}, s.Locked())
}

func TestMissedClaimIsFreedByTheNextStep(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a", "b")
	operator := s.Session()
	operator.Do("BEGIN")
	operator.Do("SELECT FROM pgfifo.jobs WHERE id = 1 FOR UPDATE")
	l := s.lane()

	h, settled, err := l.Step(t.Context(), nil, &Request{Key: group("a")})
	require.NoError(t, err)
	require.True(t, settled)
	require.Nil(t, h)
	require.Equal(t, []string{"a", "a/1"}, s.Locked(), "the group is locked, though its head cannot be")

	require.Equal(t, int64(2), s.claim(l, "b").ID)
	require.Equal(t, []string{"b", "a/1", "b/2"}, s.Locked())

	h = s.step(l, nil, &Request{Key: group("a")})
	require.Nil(t, h)
	s.end(l)
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

func TestEnqueueDoesNotWait(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a")
	s.claim(s.lane(), "a")
	enqueue := s.Statement("enqueue")
	first, second := s.Session(), s.Session()
	for _, c := range []*pgtest.Session{first, second} {
		c.Do("BEGIN")
		for _, id := range []string{"a", "brand-new", "a"} {
			waits := c.Waits(enqueue,
				[]string{queue}, []string{id}, [][]byte{{}}, []int64{0}, []int32{0}, nil, nil, nil, nil)
			require.False(t, waits, id)
		}
	}
}

// With a foreign key, it is the strength of the lock that decides.
func TestForeignKeyWaitsForStrongLock(t *testing.T) {
	pgtest.OverNamed(t, map[string]bool{
		"FOR NO KEY UPDATE": false, "FOR UPDATE": true,
	}, func(t *testing.T, strength string, waits bool) {
		s := newStage(t)
		s.Enqueue(1, "a")
		s.Exec("ALTER TABLE pgfifo.jobs ADD FOREIGN KEY (queue, group_id) REFERENCES pgfifo.queue_groups")
		worker := s.Session()
		worker.Do(beginSQL)
		lock := statement("lock")
		if strength != "FOR NO KEY UPDATE" {
			lock = pgtest.Mutate(t, lock, "FOR NO KEY UPDATE SKIP LOCKED", strength+" SKIP LOCKED")
		}
		_, job, err := shape{lock, statement("claim"), true}.claim(t.Context(), worker.Conn, "a")
		require.NoError(t, err)
		require.Equal(t, int64(1), job)
		insert := "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')"
		require.Equal(t, waits, s.Session().Waits(insert, queue))
	})
}

func TestPauseDoesNotWait(t *testing.T) {
	s, l, h := held(t, 2)
	c, pause := s.Session(), s.Statement("pause")
	for range 2 {
		require.False(t, c.Waits(pause, queue, "a", "why", 10))
		require.False(t, c.Waits(pause, queue, "", "all", 10))
	}

	// The running job ends normally, and the next does not begin.
	next, settled, err := l.Step(t.Context(), succeed(h), &Request{Key: group("a")})
	require.NoError(t, err)
	require.True(t, settled)
	require.True(t, next.Paused)

	// A pause on the group's own row would have waited.
	require.True(t, c.Waits("UPDATE pgfifo.queue_groups SET created_at = created_at WHERE group_id = 'a'"))
	require.False(t, c.Waits(s.Statement("resume"), queue, "a"))
	s.end(l)
	require.True(t, s.claim(l, "a").Paused, "by its queue")
}
