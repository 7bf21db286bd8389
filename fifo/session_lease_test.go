package fifo_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// bySession gives queue q the lease of a session.
func (b *bed) bySession() {
	b.t.Helper()
	require.NoError(b.t, b.client.Queue("q").Configure(b.t.Context(), fifo.Settings{SessionLease: true}))
}

// Jobs of many groups run in order, far more at once than the worker has connections, and complete with what their
// handlers write.
func TestSessionLease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.bySession()
	b.exec("CREATE TABLE done (n bigserial, job bigint PRIMARY KEY, group_id text)")
	b.sendMany("q", 30, 3)
	g := newGauge()
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.ID <= 30 {
			_ = g.handle(ctx, job)
		}
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO done (job, group_id) VALUES ($1, $2)", job.ID, job.GroupID)
		return err
	}, func(w *fifo.Worker) { w.SessionConcurrency = 40 })
	r := b.run(w)
	g.reach(t, 30)
	require.Equal(t, 0, query[int](b, "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL"))
	require.Equal(t, 1, query[int](b, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
	close(g.open)
	b.drained()
	require.NoError(t, r.stop())
	require.Equal(t, 90, query[int](b, "SELECT count(*) FROM done"))
	require.Equal(t, 0, query[int](b, `SELECT count(*) FROM done a JOIN done b USING (group_id)
		WHERE a.n < b.n AND a.job > b.job`))
	require.Equal(t, 0, query[int](b, "SELECT count(*) FROM pgfifo.queue_groups WHERE session IS NOT NULL"))
}
