package lease

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

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
