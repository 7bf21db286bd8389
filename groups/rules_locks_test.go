package groups

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHoldIsTwoRowLocks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(3, "a", "b")
	l := s.lane()
	h := s.claim(l, "b")
	require.Equal(t, []string{"b", "b/2"}, s.locked())

	// In the same step the old ones are freed and the new ones taken.
	h, settled, err := l.Step(t.Context(), succeed(h), &Request{Key: group("a")})
	require.NoError(t, err)
	require.True(t, settled)
	require.Equal(t, int64(1), h.ID)
	require.Equal(t, []string{"a", "a/1"}, s.locked())
	s.end(l)
	require.Empty(t, s.locked())
}

// The broken shape holds what it passed over: a job of a group that it never had.
func TestJoinHoldsMore(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a", "a", "b")
	first, second := s.session(), s.session()
	for _, c := range []*session{first, second} {
		c.do(beginSQL)
		_, _, err := brokenShape.claim(t.Context(), c.Conn, "any")
		require.NoError(t, err)
	}
	require.Equal(t, []string{"a", "b", "a/1", "a/2", "b/3"}, s.locked())
}

func TestMissedClaimIsFreedByTheNextStep(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(2, "a", "b")
	operator := s.session()
	operator.do("BEGIN")
	operator.do("SELECT FROM pgfifo.jobs WHERE id = 1 FOR UPDATE")
	l := s.lane()

	h, settled, err := l.Step(t.Context(), nil, &Request{Key: group("a")})
	require.NoError(t, err)
	require.True(t, settled)
	require.Nil(t, h)
	require.Equal(t, []string{"a", "a/1"}, s.locked(), "the group is locked, though its head cannot be")

	require.Equal(t, int64(2), s.claim(l, "b").ID)
	require.Equal(t, []string{"b", "a/1", "b/2"}, s.locked())

	h, _, err = l.Step(t.Context(), nil, &Request{Key: group("a")})
	require.NoError(t, err)
	require.Nil(t, h)
	s.end(l)
	require.Equal(t, []string{"a/1"}, s.locked())
}

// A second claim of a held group misses, and takes nothing from the one who holds it; so does one of a group without
// jobs, without a row, or with none above the floor.
func TestClaimMisses(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a", "empty")
	s.exec("DELETE FROM pgfifo.jobs WHERE group_id = 'empty'")
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'no row', '')", queue)
	holder, other := s.lane(), s.lane()
	h := s.claim(holder, "a")
	for _, id := range []string{"a", "empty", "no row", "never seen"} {
		require.True(t, s.misses(other, id), id)
	}
	require.Equal(t, []string{"a", "a/1"}, s.locked())
	s.end(holder)
	hold, _, err := other.Step(t.Context(), nil, &Request{Key: h.Key, Floor: 1, Learned: math.MaxInt64})
	require.NoError(t, err)
	require.Nil(t, hold)
	s.end(other)
	require.False(t, s.misses(other, "a"))
}

func TestEnqueueDoesNotWait(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(2, "a")
	s.claim(s.lane(), "a")
	enqueue := s.statement("enqueue")
	first, second := s.session(), s.session()
	for _, c := range []*session{first, second} {
		c.do("BEGIN")
		for _, id := range []string{"a", "brand-new", "a"} {
			require.False(t,
				c.waits(enqueue, []string{queue}, []string{id}, [][]byte{{}}, []int64{0}, []int32{0}, false), id)
		}
	}
}

func TestUpsertWaits(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(1, "a")
	s.claim(s.lane(), "a")
	const insert = "INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ($1, 'a') ON CONFLICT "
	c := s.session()
	require.False(t, c.waits(insert+"DO NOTHING", queue))
	require.False(t, c.waits(ensureSQL, []string{queue}, []string{"a"}))
	require.True(t, c.waits(insert+"(queue, group_id) DO UPDATE SET created_at = statement_timestamp()", queue))
}

// With a foreign key, it is the strength of the lock that decides.
func TestForeignKeyWaitsForStrongLock(t *testing.T) {
	t.Parallel()
	for strength, waits := range map[string]bool{"FOR NO KEY UPDATE": false, "FOR UPDATE": true} {
		t.Run(strength, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.enqueue(1, "a")
			s.exec("ALTER TABLE pgfifo.jobs ADD FOREIGN KEY (queue, group_id) REFERENCES pgfifo.queue_groups")
			worker := s.session()
			worker.do(beginSQL)
			lock := lockSQL
			if strength != "FOR NO KEY UPDATE" {
				lock = mutate(t, lock, "FOR NO KEY UPDATE SKIP LOCKED", strength+" SKIP LOCKED")
			}
			_, job, err := shape{lock, claimSQL, true}.claim(t.Context(), worker.Conn, "a")
			require.NoError(t, err)
			require.Equal(t, int64(1), job)
			insert := "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')"
			require.Equal(t, waits, s.session().waits(insert, queue))
		})
	}
}

func TestPauseDoesNotWait(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.enqueue(2, "a")
	l := s.lane()
	h := s.claim(l, "a")
	c, pause := s.session(), s.statement("pause")
	for range 2 {
		require.False(t, c.waits(pause, queue, "a", "why"))
		require.False(t, c.waits(pause, queue, "", "all"))
	}

	// The running job ends normally, and the next does not begin.
	next, settled, err := l.Step(t.Context(), succeed(h), &Request{Key: group("a")})
	require.NoError(t, err)
	require.True(t, settled)
	require.True(t, next.Paused)

	// A pause on the group's own row would have waited.
	require.True(t, c.waits("UPDATE pgfifo.queue_groups SET created_at = created_at WHERE group_id = 'a'"))
	require.False(t, c.waits(s.statement("resume"), queue, "a"))
	s.end(l)
	require.True(t, s.claim(l, "a").Paused, "by its queue")
}
