package schedule

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// collect collects up to limit rows behind after, however young.
func (s *stage) collect(ctx context.Context, after groups.Key, limit int) (n int64, last groups.Key, err error) {
	err = pgx.BeginFunc(ctx, s.Pool, func(tx pgx.Tx) error {
		n, last, err = Collect(ctx, tx, s.Schema, -time.Hour, after, limit)
		return err
	})
	return n, last, err
}

// collected collects up to ten rows, and returns how many there were.
func (s *stage) collected() int64 {
	s.Helper()
	n, _, err := s.collect(s.Context(), groups.Key{}, 10)
	require.NoError(s, err)
	return n
}

func (s *stage) groupRows() []string {
	s.Helper()
	return pgtest.Column[string](s.DB, "SELECT group_id FROM pgfifo.queue_groups ORDER BY 1")
}

func TestCollect(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "busy", "held", "idle 1", "idle 2", "idle 3", "young")
	s.Exec("DELETE FROM pgfifo.jobs WHERE group_id NOT IN ('busy', 'held')")
	s.Exec("UPDATE pgfifo.queue_groups SET created_at = created_at - interval '1 hour' WHERE group_id <> 'young'")
	l := s.lane()
	h := s.claim(l, "held")

	after := groups.Key{}
	var deleted []int64
	for {
		err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
			n, last, err := Collect(t.Context(), tx, s.Schema, time.Minute, after, 2)
			deleted, after = append(deleted, n), last
			return err
		})
		require.NoError(t, err)
		if after == (groups.Key{}) {
			break
		}
		require.Equal(t, queue, after.Queue)
	}
	require.Equal(t, []int64{2, 1}, deleted)
	require.Equal(t, []string{"busy", "held", "young"}, s.groupRows())
	s.end(l, succeed(h)...)
}

// A held group keeps its row, whether or not its jobs can be seen.
func TestCollectPassesOverHeldGroups(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	c := s.Session()
	c.Do("BEGIN")
	c.Do("SELECT FROM pgfifo.queue_groups FOR NO KEY UPDATE")
	s.Exec("DELETE FROM pgfifo.jobs")
	require.Zero(t, s.collected())
	require.Equal(t, []string{"a"}, s.groupRows())
	c.Do("COMMIT")
	require.Equal(t, int64(1), s.collected())
}

// enqueuedMeanwhile steps through a collection, with a message that arrives between its two statements.
func enqueuedMeanwhile(t *testing.T, second string) []string {
	s := &stage{pgtest.New(t)}
	s.Enqueue(1, "a")
	s.Exec("DELETE FROM pgfifo.jobs")
	c := s.Session()
	c.Do("BEGIN")
	c.Do(statement("collect_lock"), "", "", -time.Hour.Microseconds(), 10)
	require.Equal(t, []string{"a"}, s.Locked())
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
	c.Do(second, []string{queue}, []string{"a"})
	c.Do("COMMIT")
	return s.groupRows()
}

func TestCollectLooksTwice(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a"}, enqueuedMeanwhile(t, statement("collect")))
	recheck := "\n  AND (SELECT true FROM pgfifo.jobs j " +
		"WHERE j.queue = g.queue AND j.group_id = g.group_id LIMIT 1) IS NULL"
	require.Empty(t, enqueuedMeanwhile(t, pgtest.Mutate(t, statement("collect"), recheck, "")))
}

// marksLeft steps through a collection, with a job that starts between its last two statements, in a group of which
// several may run at once: such a claim does without the group's row.
func marksLeft(t *testing.T, rest string) int {
	s := &stage{pgtest.New(t)}
	s.Enqueue(1, "a")
	s.Exec("DELETE FROM pgfifo.jobs")
	c := s.Session()
	c.Do("BEGIN")
	c.Do(statement("collect_lock"), "", "", -time.Hour.Microseconds(), 10)
	c.Do(statement("collect"), []string{queue}, []string{"a"})
	s.Exec("INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, group_limit) VALUES ($1, 1, false, 2)",
		queue)
	s.Exec(statement("ensure_shared"), []string{queue}, []string{"a"})
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
	l := s.lane()
	h := s.step(l, nil, &lease.Request{Key: group("a"), Shared: true})
	require.NotNil(t, h)
	require.NoError(t, l.Mark(t.Context(), []*lease.Held{&h.Held}))
	c.Do(rest, []string{queue}, []string{"a"})
	c.Do("COMMIT")
	require.Empty(t, s.groupRows())
	return pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks")
}

// The mark of a job that has started since its group was found idle stays: it is all that tells if the worker dies.
func TestCollectLeavesMarks(t *testing.T) {
	t.Parallel()
	require.Equal(t, 1, marksLeft(t, statement("collect_rest")))
	recheck := "\n      AND (SELECT true FROM pgfifo.jobs j " +
		"WHERE j.queue = m.queue AND j.group_id = m.group_id AND j.id = m.id) IS NULL"
	require.Zero(t, marksLeft(t, pgtest.Mutate(t, statement("collect_rest"), recheck, "")))
}

// In one statement, hence one snapshot, the recheck would not see the message.
func TestCollectInOneStatementLooksOnce(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.Exec("DELETE FROM pgfifo.jobs")
	gate, c := s.Session(), s.Session()
	gate.Do("SELECT pg_advisory_lock(1)")
	done := c.Start("WITH pass AS MATERIALIZED (SELECT pg_advisory_lock(1) IS NULL AS never) " +
		"DELETE FROM pgfifo.queue_groups g USING pass WHERE NOT pass.never AND NOT EXISTS " +
		"(SELECT FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id)")
	s.Until(func() bool { return s.Blocked(c.PgConn().PID()) })
	s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
	gate.Do("SELECT pg_advisory_unlock(1)")
	require.NoError(t, <-done)
	require.Empty(t, s.groupRows())
}

// A group that had no jobs when the collector began, and whose worker has died when it comes there, keeps the evidence.
func TestCollectLeavesEvidence(t *testing.T) {
	t.Parallel()
	lost := func(sql string) bool {
		s := &stage{pgtest.New(t)}
		s.Enqueue(1, "a", "b")
		l := s.lane()
		s.end(l, succeed(s.claim(l, "a"))...)
		s.end(l, succeed(s.claim(l, "b"))...)
		gate, c := s.Session(), s.Session()
		gate.Do("SELECT pg_advisory_lock(1)")
		c.Do("BEGIN")
		gated := pgtest.Mutate(t, sql, "WHERE (g.queue",
			"WHERE (SELECT pg_advisory_lock(1) IS NOT NULL)\n  AND (g.queue")
		done := c.Start(gated, "", "", -time.Hour.Microseconds(), 10)
		s.Until(func() bool { return s.Blocked(c.PgConn().PID()) })
		s.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, 'a', '')", queue)
		s.claim(l, "a")
		s.Terminate(l.Conn().PgConn().PID())
		gate.Do("SELECT pg_advisory_unlock(1)")
		require.NoError(t, <-done)
		look := "SELECT FROM pgfifo.queue_groups WHERE group_id = 'b' FOR UPDATE"
		require.True(t, s.Session().Waits(look), "it is collected")
		c.Do("COMMIT")
		heir := s.lane()
		s.claim(heir, "a")
		lost, err := heir.Lost(t.Context())
		require.NoError(t, err)
		return len(lost) > 0
	}
	require.True(t, lost(statement("collect_lock")))
	trusting := pgtest.Mutate(t, statement("collect_lock"), "THEN false -- it is newer", "THEN true -- it is newer")
	require.False(t, lost(trusting))
}

// A job whose group has no row cannot be claimed. Looking for work makes the row.
func TestScoutMakesMissingRows(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	s.Exec("DELETE FROM pgfifo.queue_groups")
	l := s.lane()
	require.Nil(t, s.step(l, nil, &lease.Request{Key: group("a")}))
	s.end(l)

	turns := s.walked()
	require.Equal(t, []string{"a", "b"}, s.groupRows())
	for range 2 {
		h := s.step(l, nil, turns.TryNext().Request())
		require.NotNil(t, h)
		s.end(l, succeed(h)...)
	}
}

// Collectors, producers and workers go at the same few groups. Every job is done in the end.
func TestCollectBesideWork(t *testing.T) {
	s := newStage(t)
	const jobs = 600
	ctx, cancel := context.WithTimeout(t.Context(), pgtest.Patient)
	defer cancel()
	turns := NewTurns(100)
	scout := NewScout(turns, []string{queue}, s.Schema, 20*time.Millisecond)
	conn := s.Session().Conn
	var collected, done atomic.Int64
	lanes, stop := context.WithCancel(ctx)
	defer stop()

	var eg errgroup.Group
	eg.Go(func() error {
		if err := scout.Run(lanes, conn); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	for range 2 {
		eg.Go(func() error {
			for lanes.Err() == nil {
				n, _, err := s.collect(ctx, groups.Key{}, 10)
				if err != nil {
					return err
				}
				collected.Add(n)
			}
			return nil
		})
	}
	for range 3 {
		l := s.lane()
		eg.Go(func() error {
			for turn := turns.Next(lanes); turn != nil; turn = turns.Next(lanes) {
				h, _, err := l.Step(ctx, nil, turn.Request())
				if err != nil {
					return err
				}
				o := Outcome{Missed: true}
				var calls []lease.Call
				if h != nil {
					o, calls = Outcome{Finished: h.ID, More: h.More}, succeed(h)
				}
				if _, _, err := l.Step(ctx, calls, nil); err != nil {
					return err
				}
				if h != nil && done.Add(1) == jobs {
					stop()
				}
				turns.Done(turn, o)
			}
			return nil
		})
	}
	eg.Go(func() error {
		for i := range jobs {
			_, err := s.Pool.Exec(ctx, "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ($1, $2, '')",
				queue, fmt.Sprint("g", i%4))
			if err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, eg.Wait())
	require.Equal(t, int64(jobs), done.Load())
	require.Zero(t, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.jobs"))
	require.Positive(t, collected.Load())
}

// fence runs a handler that asks for a token.
func (s *stage) fence(l *lease.Lane, h *lease.Hold) (token int64) {
	s.Helper()
	require.NoError(s, l.Lend(func() {
		var err error
		token, err = l.Loan().Fence(s.Context(), h.Key)
		require.NoError(s, err)
	}))
	return token
}

// Tokens of a group go on growing when its rows were collected meanwhile.
func TestFenceAfterCollection(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	l := s.lane()
	h := s.claim(l, "a")
	first := s.fence(l, h)
	s.end(l, succeed(h)...)
	held := s.claim(l, "b")
	s.fence(l, held)
	s.collected()
	require.Equal(t, []string{"b"}, pgtest.Column[string](s.DB, "SELECT group_id FROM pgfifo.fences"))
	s.end(l, succeed(held)...)

	s.Enqueue(1, "a")
	require.Greater(t, s.fence(l, s.claim(l, "a")), first)
}

func TestUpsertWaits(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.claim(s.lane(), "a")
	const insert = "INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ($1, 'a') ON CONFLICT "
	c := s.Session()
	require.False(t, c.Waits(insert+"DO NOTHING", queue))
	require.False(t, c.Waits(statement("ensure"), []string{queue}, []string{"a"}))
	require.True(t, c.Waits(insert+"(queue, group_id) DO UPDATE SET created_at = statement_timestamp()", queue))
}
