package lease

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// nextAfterBackoff claims a group whose first job is in backoff and whose second one could run.
func nextAfterBackoff(t *testing.T, f shape) *referee {
	s := newStage(t)
	jobs := s.Enqueue(2, "g0")
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour' WHERE id = $1", jobs[0])
	r := newReferee([]string{"g0"}, jobs)
	c := s.Session()
	c.Do(beginSQL)
	id, job, err := f.claim(t.Context(), c.Conn, "g0")
	require.NoError(t, err)
	if job != 0 {
		r.began(id, job)
	}
	return r
}

func TestHeadIsNotFiltered(t *testing.T) {
	r := nextAfterBackoff(t, rightShape)
	require.Empty(t, r.Overtook)
	require.Empty(t, r.running)
}

func TestFilteredHeadIsOvertaken(t *testing.T) {
	filtered := pgtest.Mutate(t, statement("claim"), "h.id > $3",
		"h.id > $3 AND (h.run_at IS NULL OR h.run_at <= statement_timestamp())")
	r := nextAfterBackoff(t, shape{statement("lock"), filtered, true})
	require.Equal(t, []string{"g0: 2 before 1"}, r.Overtook)
}

// A head that is not ready is claimed all the same, and says why it may not run: nobody else can have the group then.
func TestHeadTellsItsReadiness(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "delayed", "paused", "ready")
	s.Enqueue(1, "last")
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() + interval '1 hour' WHERE id = 1")
	s.Exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp() - interval '1 hour' WHERE id = 3")
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, 'paused')", queue)
	l := s.lane()

	h := s.claim(l, "delayed")
	require.Equal(t, int64(1), h.ID)
	require.InDelta(t, time.Hour, h.DueIn, float64(time.Minute))
	require.False(t, h.Ready())
	require.False(t, h.Paused)
	require.True(t, h.More)
	s.end(l)

	h = s.claim(l, "paused")
	require.Equal(t, int64(2), h.ID)
	require.True(t, h.Paused)
	require.False(t, h.Ready())
	s.end(l)

	h = s.claim(l, "ready")
	require.Equal(t, int64(3), h.ID)
	require.Zero(t, h.DueIn)
	require.True(t, h.Ready())
	s.end(l)

	require.False(t, s.claim(l, "last").More)
	s.Exec("INSERT INTO pgfifo.pauses (queue, group_id) VALUES ($1, '')", queue)
	require.True(t, s.claim(s.lane(), "ready").Paused, "by its queue")
}

// statement_timestamp(), not the start of the transaction, decides: a lane chains one transaction to the next, and a
// job that became due since the last claim may run.
func TestReadinessIsAsOfTheStatement(t *testing.T) {
	s := newStage(t)
	s.Enqueue(1, "g0")
	old := s.Session()
	old.Do(beginSQL)
	old.Do("SELECT 1")
	s.Exec("UPDATE pgfifo.jobs SET run_at = clock_timestamp()") // after the beginning of that transaction
	dueIn := func(sql string) time.Duration {
		old.Do(statement("lock"), queue, "g0")
		rows, err := old.Query(t.Context(), sql, queue, "g0", int64(0))
		require.NoError(t, err)
		defer rows.Close()
		require.True(t, rows.Next())
		v, err := rows.Values()
		require.NoError(t, err)
		return max(v[5].(time.Time).Sub(v[6].(time.Time)), 0)
	}
	require.Zero(t, dueIn(statement("claim")))
	var early bool
	require.NoError(t, old.QueryRow(t.Context(), "SELECT run_at > now() FROM pgfifo.jobs").Scan(&early))
	require.True(t, early, "by the transaction's clock it is not due")
}

// Whatever the database's defaults are, a lane's transactions are what the library is written for: the first, and
// those that are chained to it.
func TestLaneSaysItsIsolation(t *testing.T) {
	t.Parallel()
	for _, setting := range pgtest.ContraryDefaults {
		t.Run(setting, func(t *testing.T) {
			s := newStage(t)
			s.Enqueue(3, "a")
			s.Alter(setting)
			d := s.dialer(Bounds{})
			// It has the last word on the session's settings.
			d.Pool.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
				_, err := c.Exec(ctx, "SET "+setting)
				return err
			}
			stale, l := s.dial(d), s.dial(d)
			require.True(t, s.misses(stale, "no such group"))

			h := s.claim(l, "a")
			for id := range int64(3) {
				require.Equal(t, id+1, h.ID)
				hold := s.step(stale, nil, &Request{Key: group("a")})
				require.Nil(t, hold)

				tx, err := h.loan.PgxTx(t.Context())
				require.NoError(t, err)
				var isolation, readOnly string
				require.NoError(t, tx.QueryRow(t.Context(), "SELECT current_setting('transaction_isolation'), "+
					"current_setting('transaction_read_only')").Scan(&isolation, &readOnly))
				require.Equal(t, "read committed", isolation)
				require.Equal(t, "off", readOnly)
				next := &Request{Key: group("a")}
				if id == 2 {
					next = nil
				}
				h = s.step(l, succeed(h), next)
			}
			// The other one's transaction is as old as all that, and sees the end of it.
			require.True(t, s.misses(stale, "a"))
		})
	}
}

// lateRead lets a worker try a held group in one transaction, then have it when it is free, and returns which job it
// takes for the head: the group in one statement, the head in the next.
func lateRead(t *testing.T, begin string) (head int64) {
	s := newStage(t)
	s.Enqueue(2, "a")
	l, c := s.lane(), s.Session()
	h := s.claim(l, "a")
	lock := func() bool {
		rows, err := c.Query(t.Context(),
			"SELECT FROM pgfifo.queue_groups WHERE group_id = 'a' FOR NO KEY UPDATE SKIP LOCKED")
		require.NoError(t, err)
		defer rows.Close()
		return rows.Next()
	}
	c.Do(begin)
	require.False(t, lock())
	s.end(l, succeed(h)...)
	require.True(t, lock())
	require.NoError(t, c.QueryRow(t.Context(), "SELECT min(id) FROM pgfifo.jobs WHERE group_id = 'a'").Scan(&head))
	return head
}

func TestRepeatableReadTakesFinishedJob(t *testing.T) {
	for begin, head := range map[string]int64{beginSQL: 2, "BEGIN ISOLATION LEVEL REPEATABLE READ": 1} {
		t.Run(begin, func(t *testing.T) { require.Equal(t, head, lateRead(t, begin)) })
	}
}

// claim.sql itself fails there rather than take the finished job.
func TestClaimUnderRepeatableRead(t *testing.T) {
	s := newStage(t)
	s.Enqueue(2, "a")
	l, c := s.lane(), s.Session()
	h := s.claim(l, "a")
	c.Do("BEGIN ISOLATION LEVEL REPEATABLE READ")
	_, job, err := rightShape.claim(t.Context(), c.Conn, "a")
	require.NoError(t, err)
	require.Zero(t, job)
	s.end(l, succeed(h)...)
	_, _, err = rightShape.claim(t.Context(), c.Conn, "a")
	require.ErrorContains(t, err, "40001")
}
