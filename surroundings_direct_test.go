//go:build unix

package pgfifo_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Behind a pooler in transaction mode a worker of a queue with SessionLease needs the direct address for three sessions
// only: jobs are enqueued, run with transactions of their own, retried and completed through the pooler, in order, and
// nothing is left in its sessions.
func TestSessionLeaseBehindPooler(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, "transaction", map[string]string{"default_pool_size": "6"})
	cfg, err := pgxpool.ParseConfig(b.through(s.url))
	require.NoError(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	direct, err := pgx.ParseConfig(s.url)
	require.NoError(t, err)

	client := fifo.Open(pool, nil)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	require.NoError(t, client.Queue("direct").Configure(t.Context(), fifo.Settings{SessionLease: true, Limit: 12}))
	_, err = s.pool.Exec(t.Context(), "CREATE TABLE written (n bigserial, job bigint PRIMARY KEY, group_id text)")
	require.NoError(t, err)
	const groups, each = 20, 5
	for i := range groups * each {
		_, err := client.Enqueue(t.Context(), fifo.Message{
			Queue: "direct", GroupID: fmt.Sprint("g", i%groups), Payload: "x",
		})
		require.NoError(t, err)
	}
	var failed atomic.Int64
	worker := &fifo.Worker{
		Client: client, Direct: direct, Concurrency: 3, SessionConcurrency: 16, PollInterval: 100 * time.Millisecond,
		Retry: func(*fifo.Job, error) time.Duration { return 0 },
	}
	worker.Handle("direct", func(ctx context.Context, job *fifo.Job) error {
		if job.ID%3 == 0 {
			return nil // completed with others
		}
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO written (job, group_id) VALUES (?, ?)", job.ID, job.GroupID)
		if err == nil && job.Attempts == 0 && job.ID%4 == 0 {
			failed.Add(1)
			err = fmt.Errorf("on purpose")
		}
		return err
	})
	stop := background(t, worker.Run)
	s.until("the end of all jobs", func() bool { return s.number("SELECT count(*) FROM pgfifo.jobs") == 0 })
	stop()
	require.Positive(t, failed.Load())
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.dead_letters"))
	require.Equal(t, s.number("SELECT count(*) FROM generate_series(1, $1::bigint) n WHERE n % 3 <> 0", groups*each),
		s.number("SELECT count(*) FROM written"))
	require.Zero(t, s.number(
		"SELECT count(*) FROM written a JOIN written b USING (group_id) WHERE a.n < b.n AND a.job > b.job"))
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.queue_groups WHERE session IS NOT NULL"))
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL"))
	requireCleanSessions(s, b)
}
