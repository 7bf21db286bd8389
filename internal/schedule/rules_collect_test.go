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

// collecting has found group a idle, in a session's transaction, in which collect may follow.
func (s *stage) collecting() *pgtest.Session {
	s.Helper()
	s.Enqueue(1, "a")
	s.Exec("DELETE FROM pgfifo.jobs")
	c := s.Session()
	c.Do("BEGIN")
	c.Do(statement("collect_lock"), "", "", -time.Hour.Microseconds(), 10)
	require.Equal(s, []string{"a"}, s.Locked())
	return c
}

// A message may arrive between the two statements of a collection.
func TestCollectLooksTwice(t *testing.T) {
	s := newStage(t)
	c := s.collecting()
	s.send(queue, "a")
	c.Do(statement("collect"), []string{queue}, []string{"a"})
	c.Do("COMMIT")
	require.Equal(t, []string{"a"}, s.groupRows())
}

// The mark of a job that has started since its group was found idle stays: it is all that tells if the worker dies. The
// job starts between the last two statements, in a group of which several may run at once: such a claim does without
// the group's row.
func TestCollectLeavesMarks(t *testing.T) {
	s := newStage(t)
	c := s.collecting()
	c.Do(statement("collect"), []string{queue}, []string{"a"})
	s.Exec("INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, group_limit) VALUES ($1, 1, false, 2)",
		queue)
	s.Exec(statement("ensure_group_slots"), []string{queue}, []string{"a"})
	s.send(queue, "a")
	l := s.lane()
	h := s.step(l, nil, &lease.Request{Key: group("a"), GroupSlot: true})
	require.NotNil(t, h)
	require.NoError(t, l.Mark(t.Context(), []*lease.Held{&h.Held}))
	c.Do(statement("collect_rest"), []string{queue}, []string{"a"})
	c.Do("COMMIT")
	require.Empty(t, s.groupRows())
	require.Equal(t, 1, pgtest.One[int](s.DB, "SELECT count(*) FROM pgfifo.attempt_marks"))
}

// A group that had no jobs when the collector began, and whose worker has died when it comes there, keeps the evidence.
func TestCollectLeavesEvidence(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a", "b")
	l := s.lane()
	s.end(l, succeed(s.claim(l, "a"))...)
	s.end(l, succeed(s.claim(l, "b"))...)
	gate, c := s.Session(), s.Session()
	gate.Do("SELECT pg_advisory_lock(1)")
	c.Do("BEGIN")
	gated := pgtest.Mutate(t, statement("collect_lock"), "WHERE (g.queue",
		"WHERE (SELECT pg_advisory_lock(1) IS NOT NULL)\n  AND (g.queue")
	done := c.Start(gated, "", "", -time.Hour.Microseconds(), 10)
	s.Until(func() bool { return s.Blocked(c.PgConn().PID()) })
	s.send(queue, "a")
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
	require.Len(t, lost, 1)
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
	require.NoError(s, l.Lend(s.Context(), func() {
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

// What makes the row of a group that somebody holds does not wait.
func TestEnsureDoesNotWait(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "a")
	s.claim(s.lane(), "a")
	require.False(t, s.Session().Waits(statement("ensure"), []string{queue}, []string{"a"}))
}
