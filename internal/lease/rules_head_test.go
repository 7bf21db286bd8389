package lease

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
	pgtest.OverEach(t, pgtest.ContraryDefaults, func(t *testing.T, setting string) {
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
			require.Nil(t, s.step(stale, nil, &Request{Key: group("a")}))
			tx := s.pgxTx(h)
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

// A head that was read in an older snapshot may be finished: claim.sql fails rather than take it.
func TestClaimUnderRepeatableRead(t *testing.T) {
	s, l, h := held(t, 2)
	c := s.Session()
	claim := func() (int64, error) {
		c.Do(statement("lock"), queue, "a")
		tag, err := c.Conn.Exec(t.Context(), statement("claim"), queue, "a", int64(0))
		return tag.RowsAffected(), err
	}
	c.Do("BEGIN ISOLATION LEVEL REPEATABLE READ")
	n, err := claim()
	require.NoError(t, err)
	require.Zero(t, n)
	s.end(l, succeed(h)...)
	_, err = claim()
	require.ErrorContains(t, err, "40001")
}
