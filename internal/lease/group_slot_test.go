package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// So many jobs of a group are held as it has slots, the first ones. One more finds none, and the slot of the first to
// end is the next one's.
func TestGroupSlot(t *testing.T) {
	s := newStage(t)
	s.Enqueue(5, "a")
	s.Enqueue(1, "b")
	s.groupLimit(3, "a", "b")
	lanes := []*Lane{s.lane(), s.lane(), s.lane()}
	var holds []*Hold
	for i, l := range lanes {
		holds = append(holds, s.start(l, "a"))
		require.Equal(t, int64(i+1), holds[i].ID)
		require.True(t, holds[i].More)
	}
	more := s.lane()
	require.Nil(t, s.groupSlot(more, nil, "a"))
	require.Equal(t, NoHead, more.Missed())
	require.Equal(t, int64(6), s.start(more, "b").ID)
	s.end(more)
	require.Equal(t, int64(4), s.groupSlot(lanes[1], succeed(holds[1]), "a").ID)
	require.Nil(t, s.groupSlot(more, nil, "a"))
	s.end(more)
	for _, l := range lanes {
		s.end(l)
	}
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks"))
	require.Equal(t, int64(1), s.start(more, "a").ID)
}

// Nobody passes a job that is not running: one that was only claimed, and one that an operator has locked.
func TestGroupSlotPassesWhatRuns(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a")
	s.groupLimit(3, "a")
	first, l := s.lane(), s.lane()
	h := s.groupSlot(first, nil, "a")
	require.Nil(t, s.groupSlot(l, nil, "a"), "the first one is not marked")
	require.Equal(t, NextLocked, l.Missed())
	require.NoError(t, first.Mark(t.Context(), []*Held{&h.Held}))
	operator := s.Session()
	operator.Do("BEGIN")
	operator.Do("SELECT FROM pgfifo.jobs WHERE id = 2 FOR UPDATE")
	require.Nil(t, s.groupSlot(l, nil, "a"))
	require.Equal(t, NextLocked, l.Missed())
	operator.Do("ROLLBACK")
	second := s.start(l, "a")
	require.Equal(t, int64(2), second.ID)

	s.end(first, retryIn(h, time.Hour)...) // the first is behind time, and holds what is behind it
	again := s.groupSlot(first, nil, "a")
	require.Equal(t, int64(1), again.ID)
	require.Positive(t, again.DueIn)
	require.Nil(t, s.groupSlot(s.lane(), nil, "a"))
}

// A worker that dies leaves a mark: it is found whichever slot the next claim has, once, and not while it lives.
func TestGroupSlotEvidence(t *testing.T) {
	s := newStage(t)
	s.Enqueue(3, "a")
	s.groupLimit(3, "a")
	dies, l, other := s.lane(), s.lane(), s.lane()
	require.Equal(t, int64(1), s.start(dies, "a").ID)
	require.Equal(t, int64(2), s.start(other, "a").ID)
	s.end(other)
	s.Terminate(dies.pg().PID())
	h := s.groupSlot(l, nil, "a")
	require.Equal(t, int64(1), h.ID)
	require.Len(t, s.found(l), 1)
	require.Nil(t, s.groupSlot(other, nil, "a"), "the mark is the dead one's, and nobody runs the job")
	s.end(other)
	s.end(l, retryIn(h, 0)...)
	h = s.start(l, "a")
	require.Equal(t, 1, h.Attempts)
	require.Empty(t, s.found(l), "once")
	s.end(l)
	xid := pgtest.One[string](s.DB, "SELECT pg_current_xact_id()::text")
	s.Exec("INSERT INTO pgfifo.attempt_marks VALUES ($1, 'a', $2, 2, $3::text::xid8)", queue, h.ID, xid)
	s.groupSlot(l, nil, "a")
	require.Empty(t, s.found(l), "a claim that has committed has not died: its mark came late")
	s.end(l)
}

// The right job to start is looked for behind the lock. What ran when the job was locked may have failed since, and
// then it is the next; so may one be that has been committed since. So is the slot: the limit may be lower.
func TestGroupSlotLooksBehindTheLock(t *testing.T) {
	pgtest.OverAll(t, map[string]func(*stage, *Lane, *Hold){
		"nothing":  nil,
		"failed":   func(s *stage, l *Lane, h *Hold) { s.end(l, retryIn(h, time.Hour)...) },
		"returned": func(s *stage, l *Lane, _ *Hold) { s.end(l) },
		"died":     func(s *stage, l *Lane, _ *Hold) { s.Terminate(l.pg().PID()) },
		"lower": func(s *stage, _ *Lane, _ *Hold) {
			s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ($1, 'a', 1, '')", queue)
		},
		"limited": func(s *stage, _ *Lane, _ *Hold) { s.Exec("UPDATE pgfifo.queues SET group_limit = 1") },
	}, func(t *testing.T, change func(*stage, *Lane, *Hold)) {
		s := newStage(t)
		s.Exec("SELECT setval('pgfifo.jobs_id_seq', 1)")
		s.Enqueue(2, "a")
		s.groupLimit(2, "a")
		first := s.lane()
		h := s.start(first, "a")
		c := s.Session()
		rows := func(sql string) int {
			tag, err := c.Conn.Exec(t.Context(), sql, queue, "a")
			require.NoError(t, err)
			return int(tag.RowsAffected())
		}
		c.Do(beginSQL)
		require.Equal(t, 1, rows(statement("lock_group_slot")))
		require.Equal(t, 1, rows(statement("lock_next")))
		require.Equal(t, []string{"a/2", "a/3"}, s.Locked())
		want := 1
		if change != nil {
			change(s, first, h)
			want = 0
		}
		require.Equal(t, want, rows(statement("claim_group_slot")))
	})
}

// A worker that has lost its session records what became of the job on another one, once, unless somebody else has
// claimed the job since.
func TestGroupSlotRecord(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a")
	s.groupLimit(2, "a")
	marks := func() int { return pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks") }
	lost, other := s.lane(), s.lane()
	h := s.start(lost, "a")
	calls := retryIn(h, 0)
	lost.kill()
	require.NoError(t, lost.Record(t.Context(), &h.Held, calls...))
	require.Zero(t, marks())
	again := s.start(other, "a")
	require.Equal(t, 1, again.Attempts)
	require.Empty(t, s.found(other))
	require.ErrorIs(t, lost.Record(t.Context(), &h.Held, calls...), ErrNotHeld)
	require.Equal(t, 1, marks())

	s.end(other)
	back := s.lane()
	h = s.start(back, "a")
	back.kill()
	require.NoError(t, back.Record(t.Context(), &h.Held), "given back")
	require.Zero(t, marks())
	require.ErrorIs(t, back.Mark(t.Context(), []*Held{&h.Held}), ErrLost)
	require.Zero(t, marks(), "by one that has lost the job")
	require.Equal(t, 1, s.start(other, "a").Attempts)
}

// A mark that has waited for that of the next claim comes too late: its own claim has died.
func TestLateMark(t *testing.T) {
	s := newStage(t)
	begin := func() (*pgtest.Session, int64) {
		c, xid := s.Session(), int64(0)
		c.Do("BEGIN")
		require.NoError(t, c.QueryRow(t.Context(), "SELECT pg_current_xact_id()::text::bigint").Scan(&xid))
		return c, xid
	}
	died, first := begin()
	_, second := begin()
	mark := func(xid int64) []any {
		return []any{[]string{"q"}, []string{"a"}, []int64{1}, []int32{1}, []int64{xid}, []bool{true}}
	}
	next, late := s.Session(), s.Session()
	next.Do("BEGIN")
	next.Do(statement("mark"), mark(second)...)
	done := late.Start(statement("mark"), mark(first)...)
	s.Until(func() bool { return s.Blocked(late.PgConn().PID()) })
	died.Do("ROLLBACK")
	next.Do("COMMIT")
	require.NoError(t, <-done)
	require.Equal(t, second, pgtest.One[int64](s.DB, "SELECT xid::text::bigint FROM pgfifo.attempt_marks"))
}
