//go:build unix

package pgfifo_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// The session of a lane behind pgbouncer in session mode is the lane's own: its settings, its cancel requests, its end.
func TestSessionBehindPooler(t *testing.T) {
	s := newSite(t)
	b := newBouncer(t, "session", nil)
	cancels := bouncerVersion(t) >= 20
	if !cancels {
		t.Log("left out: cancelling a statement, which ends pgbouncer 1.18.0 and 1.19.0")
	}
	client := fifo.Open(pgtest.Connect(t, b.through(s.url)), nil)
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
		Heartbeat: 200 * time.Millisecond, Silence: time.Second, ServerSilence: 4 * time.Second,
	}, func(ctx context.Context, job *fifo.Job) error {
		if !lookNext.Swap(false) {
			var pid int
			tx, err := job.PgxTx(ctx)
			if err == nil {
				err = tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
			}
			if err != nil {
				return err
			}
			running <- pid
			<-ctx.Done()
			lost <- context.Cause(ctx)
			return ctx.Err()
		}
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		var v sight
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
		v.err = tx.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('idle_in_transaction_session_timeout'),
			current_setting('default_transaction_isolation'), current_setting('application_name')`).
			Scan(&v.pid, &v.timeout, &v.isolation, &v.name)
		sights <- v
		<-goOn
		return ctx.Err()
	})
	s.enqueue(message("g", task{}))
	v := receive(s.T, 3*patience, sights, "the first job")
	require.NoError(t, v.err, "a cancelled statement leaves the transaction to the handler")
	require.Equal(t, "4s", v.timeout)
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
			AND query LIKE '%heartbeat%' AND state_change > xact_start + interval '5 s'`, v.pid) == 1
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
