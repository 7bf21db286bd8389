//go:build unix

package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// The session of a lane behind pgbouncer in session mode is the lane's own: its settings, its cancel requests, its end.
func TestSessionBehindPooler(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, s.URL, "session", nil)
	cancels := bouncerVersion(t) >= 20
	if !cancels {
		t.Log("left out: cancelling a statement, which ends pgbouncer 1.18.0 and 1.19.0")
	}
	client := fifo.Open(pgtest.Connect(t, b.through(s.URL)), nil)
	t.Cleanup(func() { require.NoError(t, client.Close()) })

	type sight struct {
		pid                      int
		timeout, isolation, name string
		err                      error
	}
	sights := make(chan sight, 1)
	running := make(chan int, 10)
	lost := make(chan error, 10)
	goOn := make(chan struct{})
	var lookNext atomic.Bool
	lookNext.Store(true)
	s.work(&fifo.Worker{
		Client: client, Concurrency: 2, Name: "behind a pooler",
		Heartbeat: 200 * time.Millisecond, Silence: 2500 * time.Millisecond, ServerSilence: 6 * time.Second,
	}, func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		var v sight
		if v.pid, err = backend(ctx, tx); err != nil {
			return err
		}
		if !lookNext.Swap(false) {
			running <- v.pid
			<-ctx.Done()
			lost <- context.Cause(ctx)
			return ctx.Err()
		}
		if cancels {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			// Cancelled by a request through the pooler.
			_, err = tx.Exec(short, "SAVEPOINT mine; SELECT pg_sleep(3600)")
			cancel()
			if err == nil {
				return errors.New("it was not cancelled")
			}
			if _, v.err = tx.Exec(ctx, "ROLLBACK TO mine"); v.err != nil {
				sights <- v
				return v.err
			}
		}
		v.err = tx.QueryRow(ctx, `SELECT current_setting('idle_in_transaction_session_timeout'),
			current_setting('default_transaction_isolation'), current_setting('application_name')`).
			Scan(&v.timeout, &v.isolation, &v.name)
		sights <- v
		<-goOn
		return ctx.Err()
	})
	s.enqueue(message("g", task{}))
	v := receive(s.T, 3*patience, sights, "the first job")
	require.NoError(t, v.err, "a cancelled statement leaves the transaction to the handler")
	require.Equal(t, "6s", v.timeout)
	require.Equal(t, "read committed", v.isolation)
	require.Equal(t, "behind a pooler", v.name)
	held, err := s.client.Groups(t.Context(), fifo.Page{}, fifo.Held)
	require.NoError(t, err)
	require.Len(t, held, 1)
	require.Equal(t, v.pid, held[0].PID)
	require.Equal(t, "behind a pooler", held[0].ApplicationName)

	// Heartbeats reach the server while the handler leaves the connection alone for longer than ServerSilence.
	s.until("heartbeats", func() bool {
		return s.number(`SELECT count(*) FROM pg_stat_activity WHERE pid = $1
			AND query LIKE '%heartbeat%' AND state_change > xact_start + interval '7 s'`, v.pid) == 1
	})
	goOn <- struct{}{}
	s.until("the first job's end", func() bool { return s.jobs() == 0 })

	// A session that the server ends, and one that the pooler takes with it: the handler is told.
	s.enqueue(message("g", task{}))
	for _, end := range []func(pid int){
		func(pid int) { s.number("SELECT pg_terminate_backend($1)::int", pid) },
		func(int) { b.kill() },
	} {
		end(receive(s.T, 3*patience, running, "a handler"))
		require.ErrorIs(t, receive(s.T, 3*patience, lost, "the news of the lost session"), fifo.ErrLost)
	}
}

// Behind a pooler in transaction mode a worker of a queue with SessionLease needs the direct address for three sessions
// only: jobs are enqueued, run with transactions of their own, retried and completed through the pooler, in order, and
// nothing is left in its sessions.
func TestSessionLeaseBehindPooler(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, s.URL, "transaction", map[string]string{"default_pool_size": "6"})
	direct, err := pgx.ParseConfig(s.URL)
	require.NoError(t, err)
	client := clientIn(t, b.through(s.URL), pgx.QueryExecModeExec)
	require.NoError(t, client.Queue("direct").Configure(t.Context(), fifo.Settings{SessionLease: true, Limit: 12}))
	s.Exec("CREATE TABLE written (n bigserial, job bigint PRIMARY KEY, group_id text)")
	const groups, each = 20, 5
	for i := range groups * each {
		_, err := client.Enqueue(t.Context(), fifo.Message{Queue: "direct", GroupID: fmt.Sprint("g", i%groups)})
		require.NoError(t, err)
	}
	var failed atomic.Int64
	worker := &fifo.Worker{
		Client: client, Direct: direct, Concurrency: 3, SessionConcurrency: 16, PollInterval: 100 * time.Millisecond,
		Retry: atOnce,
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
