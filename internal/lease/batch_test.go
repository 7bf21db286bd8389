package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// together claims the heads of several groups, and returns which it got.
func (s *stage) together(l *Lane, ids ...string) (*Hold, string) {
	s.Helper()
	h := s.step(l, nil, request(ids...))
	if h == nil {
		return nil, ""
	}
	var got []string
	for held := range h.Heads() {
		got = append(got, held.GroupID)
		require.Equal(s, ids[held.N], held.GroupID)
	}
	slices.Sort(got)
	return h, strings.Join(got, " ")
}

// A group that somebody else holds is missed, also when a lower id of it has been committed since, which nobody has
// locked.
func TestHeldGroupAmongMany(t *testing.T) {
	s := newStage(t)
	producer := s.Session()
	producer.Do("BEGIN; INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', '')")
	s.Enqueue(2, "a", "b")
	require.Equal(t, int64(2), s.claim(s.lane(), "a").ID)
	producer.Do("COMMIT")
	_, got := s.together(s.lane(), "a", "b")
	require.Equal(t, "b", got)
}

// Of many groups those are claimed that can be had, without waiting; the others are not left locked, nor is one whose
// head is not to be worked in company.
func TestClaimOfManyGroups(t *testing.T) {
	const lock = " FOR NO KEY UPDATE"
	type row struct {
		before string // by somebody who commits
		held   string // by somebody who does not
		got    string
		locked string // by the others
	}
	pgtest.OverAll(t, map[string]row{
		"all free": {"SELECT 1", "SELECT 1", "a b c d", ""},
		"one with a worker": {"SELECT 1", "SELECT FROM pgfifo.queue_groups NATURAL JOIN pgfifo.jobs " +
			"WHERE group_id = 'b' AND id = 2" + lock, "a c d", "b b/2"},
		"an operator's group": {
			"SELECT 1",
			"SELECT FROM pgfifo.queue_groups WHERE group_id = 'a' FOR UPDATE", "b c d", "a",
		},
		"an operator's job": {"SELECT 1", "DELETE FROM pgfifo.jobs WHERE id = 3", "a b d", "c/3"},
		"a job behind":      {"SELECT 1", "DELETE FROM pgfifo.jobs WHERE id = 7", "a b c d", "c/7"},
		"none":              {"SELECT 1", "SELECT FROM pgfifo.queue_groups FOR UPDATE", "", "a b c d"},
		"no jobs":           {"DELETE FROM pgfifo.jobs WHERE group_id = 'd'", "SELECT 1", "a b c", ""},
		"no row":            {"DELETE FROM pgfifo.queue_groups WHERE group_id = 'd'", "SELECT 1", "a b c", ""},
		"one paused": {
			"INSERT INTO pgfifo.pauses (queue, group_id) VALUES ('q', 'a')",
			"SELECT 1", "b c d", "",
		},
		"one not due":           {"UPDATE pgfifo.jobs SET run_at = 'infinity' WHERE id = 2", "SELECT 1", "a c d", ""},
		"one that was not due":  {"UPDATE pgfifo.jobs SET run_at = '2020-01-01' WHERE id = 2", "SELECT 1", "a c d", ""},
		"one that failed":       {"UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 3", "SELECT 1", "a b d", ""},
		"one to be tried once":  {"UPDATE pgfifo.jobs SET max_attempts = 1 WHERE id = 1", "SELECT 1", "b c d", ""},
		"failed, behind a head": {"UPDATE pgfifo.jobs SET attempts = 1 WHERE id > 4", "SELECT 1", "a b c d", ""},
		"all failed":            {"UPDATE pgfifo.jobs SET attempts = 1", "SELECT 1", "a", ""},
		"all but one, and that is held": {
			"UPDATE pgfifo.jobs SET attempts = 1 WHERE id <> 2",
			"SELECT FROM pgfifo.queue_groups WHERE group_id = 'b'" + lock, "a", "b",
		},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Enqueue(2, "a", "b", "c", "d")
		s.Exec(x.before)
		other := s.Session()
		other.Do("BEGIN; " + x.held)
		l := s.lane()
		h, got := s.together(l, "a", "b", "c", "d")
		require.Equal(t, x.got, got)
		if h == nil { // until the step that follows at once
			s.end(l)
			require.Equal(t, strings.Fields(x.locked), s.Locked())
			return
		}
		want := strings.Fields(x.locked)
		for held := range h.Heads() {
			want = append(want, held.GroupID, fmt.Sprint(held.GroupID, "/", held.ID))
			require.True(t, held.More)
		}
		require.ElementsMatch(t, want, s.Locked())
		s.end(l)
		require.ElementsMatch(t, strings.Fields(x.locked), s.Locked())
	})
}

// What a worker leaves behind that dies with many groups is found by the next one once for each head, also if that one
// has to give up its first claim because of others, or because they are to run alone.
func TestLostHeads(t *testing.T) {
	type row struct {
		held string
		lost string
	}
	pgtest.OverAll(t, map[string]row{
		"at once":                  {"SELECT 1", "a b c"},
		"one is held by now":       {"SELECT FROM pgfifo.queue_groups WHERE group_id = 'x' FOR UPDATE", "a b c"},
		"one of them":              {"SELECT FROM pgfifo.queue_groups WHERE group_id = 'b' FOR UPDATE", "a c"},
		"one is changed meanwhile": {"UPDATE pgfifo.jobs SET payload = 'y' WHERE id = 3", "a b"},
	}, func(t *testing.T, x row) {
		s := newStage(t)
		s.Enqueue(2, "a", "b", "c", "x")
		l := s.lane()
		_, got := s.together(l, "a", "b", "c")
		require.Equal(t, "a b c", got)
		s.Terminate(l.pg().PID())
		s.Session().Do("BEGIN; " + x.held)

		l = s.lane()
		s.together(l, "x", "a", "b", "c")
		lost := s.found(l)
		var groups []string
		for _, h := range lost {
			groups = append(groups, h.GroupID)
		}
		slices.Sort(groups)
		require.Equal(t, x.lost, strings.Join(groups, " "))
		s.end(l)
		s.together(l, "x", "a", "b", "c")
		require.Empty(t, s.found(l), "once")
	})
}

// A head that runs alone is not in company, but if its worker has died that is told with the first claim.
func TestLostHeadThatRunsAlone(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b", "c")
	s.Exec("UPDATE pgfifo.jobs SET attempts = 1 WHERE group_id = 'b'")
	l := s.lane()
	s.claim(l, "b")
	s.Terminate(l.pg().PID())
	l = s.lane()
	h := s.step(l, nil, request("a", "b", "c"))
	require.Len(t, h.Rest, 2)
	require.True(t, h.Rest[0].Seen.Alone)
	lost := s.found(l)
	require.Len(t, lost, 1)
	require.Equal(t, "b", lost[0].GroupID)
	s.end(l)
	require.False(t, s.lost("b"), "once")
}

// The jobs behind a head bear no evidence of a dead batch, and a head that does has no company.
func TestLostBatchOfOneGroup(t *testing.T) {
	s := newStage(t)
	s.Enqueue(4, "a")
	l := s.lane()
	batch := func() *Hold {
		return s.step(l, nil, &Request{Key: group("a"), Jobs: 3})
	}
	h := batch()
	require.Len(t, h.Rest, 2)
	require.True(t, h.Rest[1].More)
	s.Terminate(l.pg().PID())
	l = s.lane()
	h = batch()
	require.Empty(t, h.Rest)
	lost := s.found(l)
	require.Len(t, lost, 1)
	require.Equal(t, int64(1), lost[0].ID)
	s.end(l, succeed(h)...)
	h = batch()
	require.Equal(t, int64(2), h.ID)
	require.Len(t, h.Rest, 2)
	require.False(t, h.Rest[1].More)
	require.Empty(t, s.found(l))
}

// A job that was marked when its batch died is found lost also if a lower id is its group's head by then: the batch of
// that ends before it.
func TestLostHeadBehindALowerID(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a")
	s.Exec("UPDATE pgfifo.jobs SET id = id + 10")
	l := s.lane()
	claim := func() *Hold {
		return s.step(l, nil, &Request{Key: group("a"), Jobs: 5})
	}
	h := claim()
	require.Len(t, h.Rest, 2)
	require.NoError(t, l.Mark(t.Context(), []*Held{&h.Held}))
	s.Terminate(l.pg().PID())
	s.Enqueue(1, "a")
	s.Exec("UPDATE pgfifo.jobs SET id = 1 WHERE id < 11")

	l = s.lane()
	h = claim()
	require.Equal(t, int64(1), h.ID)
	require.Empty(t, h.Rest)
	require.True(t, h.More)
	s.end(l, succeed(h)...)
	h = claim()
	require.Equal(t, int64(11), h.ID)
	require.Len(t, s.found(l), 1)
}

// A batch is as many jobs as are asked for and there, up to the first that runs alone.
func TestSizeOfABatch(t *testing.T) {
	type row struct {
		jobs, got int
		more      bool
	}
	pgtest.OverNamed(t, map[string]row{
		"SELECT 1": {3, 3, true},
		"SELECT 2": {5, 5, false},
		"SELECT 3": {1000, 5, false},
		"UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 3":     {5, 2, true},
		"UPDATE pgfifo.jobs SET max_attempts = 1 WHERE id = 2": {5, 1, true},
		"UPDATE pgfifo.jobs SET run_at = now() WHERE id = 5":   {5, 4, true},
		"UPDATE pgfifo.jobs SET attempts = 1 WHERE id = 1":     {5, 1, true},
		"DELETE FROM pgfifo.jobs WHERE id > 1":                 {5, 1, false},
		"DELETE FROM pgfifo.jobs WHERE id IN (1, 3)":           {3, 3, false},
	}, func(t *testing.T, before string, x row) {
		s := newStage(t)
		s.Enqueue(5, "a")
		s.Exec(before)
		h := s.step(s.lane(), nil, &Request{Key: group("a"), Jobs: x.jobs})
		require.Len(t, h.Rest, x.got-1, before)
		last := append([]Held{h.Held}, h.Rest...)[x.got-1]
		require.Equal(t, x.more, last.More, before)
		for i := range x.got - 1 {
			require.True(t, append([]Held{h.Held}, h.Rest...)[i].More, before)
		}
	})
}

// A batch has no more payloads than a lane should keep in memory, and the rest comes with the next one.
func TestBatchInBytes(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec("UPDATE pgfifo.jobs SET payload = decode(repeat('00', 1 << 20), 'hex')")
	for range 19 {
		s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) SELECT queue, group_id, payload FROM pgfifo.jobs " +
			"WHERE id = 1")
	}
	h := s.step(s.lane(), nil, &Request{Key: group("a"), Jobs: 50})
	require.Len(t, h.Rest, 15)
	for _, held := range append([]Held{h.Held}, h.Rest...) {
		require.Len(t, held.Payload, 1<<20)
		require.True(t, held.More)
	}
}

// Heads of many groups have no more payload together than the jobs of one.
func TestBatchOfGroupsInBytes(t *testing.T) {
	s := newStage(t)
	names := strings.Split("abcdefghijklmnopqrst", "")
	s.Enqueue(1, names...)
	s.Exec("UPDATE pgfifo.jobs SET payload = decode(repeat('00', 1 << 20), 'hex')")
	l := s.lane()
	h := s.step(l, nil, request(names...))
	require.Equal(t, []int{16, 17, 18, 19}, h.Apart, "each by itself, with the next claim")
	require.Len(t, h.Rest, 15)
	for _, held := range append([]Held{h.Held}, h.Rest...) {
		require.Len(t, held.Payload, 1<<20)
	}
	require.False(t, s.misses(s.lane(), names[19]), "which is free")
	s.end(l, settle(h, "succeed")...)
}
