package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Who runs a job by a session is told, with or without the job's transaction: the session that holds all of the
// worker's groups, since the claim.
func TestWhoRunsBySession(t *testing.T) {
	b := bySession.on(newBed(t))
	ids := b.send("g", "one", "two")
	began, take, release := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.ID != ids[0] {
			return nil
		}
		close(began)
		<-take
		_, err := job.PgxTx(ctx)
		<-release
		return err
	}, func(w *fifo.Worker) { w.Name = "the one" })
	now := time.Now()
	b.run(w)
	receive(t, began, "the handler")
	pid := query[int](b, `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	check := func() fifo.Status {
		t.Helper()
		list := b.groups(b.client, fifo.Page{}, fifo.Held)
		require.Len(t, list, 1)
		why := b.why("g")
		require.Equal(t, why, list[0])
		require.Equal(t, fifo.Held, why.State)
		require.True(t, why.Held)
		require.Equal(t, ids[0], why.HeadID)
		require.Equal(t, pid, why.PID)
		require.Equal(t, "the one", why.ApplicationName)
		require.WithinDuration(t, now, why.HeldSince, time.Minute)
		require.Equal(t, why.HeldSince, why.Since)
		require.Regexp(t, "runs since 20.*, in session [0-9]+ of \"the one\"", why.Reason())
		behind := b.whyJob(ids[1])
		require.Equal(t, fifo.Behind, behind.State)
		require.Regexp(t, "at its head, job [0-9]+ runs since 20", behind.Reason())
		return why
	}
	before := check()
	close(take)
	await(t, "the job's transaction", func() bool {
		return query[bool](b, "SELECT EXISTS (SELECT FROM pgfifo.jobs WHERE xmax <> '0'::xid AND id = $1)", ids[0])
	})
	require.Equal(t, before, check())
	close(release)
	b.drained()
}

// A session that has died runs nothing.
func TestNobodyRunsByADeadSession(t *testing.T) {
	b := bySession.on(newBed(t))
	b.plant("q", 1, "g")
	conn := b.kept("g", b.jobs()[0].ID)
	require.Equal(t, fifo.Held, b.why("g").State)
	require.Equal(t, int(conn.PgConn().PID()), b.why("g").PID)
	b.gone(conn)
	require.Equal(t, fifo.Due, b.why("g").State)
	require.Empty(t, b.groups(b.client, fifo.Page{}, fifo.Held))
}

// A lower id that was committed while a session runs a job of the group waits for that: the group is full. The job is
// told of by its id.
func TestLowerIDBesideASession(t *testing.T) {
	b := bySession.on(newBed(t))
	b.plant("q", 3, "g")
	jobs := b.jobs()
	conn := b.kept("g", jobs[1].ID)
	why := b.why("g")
	require.Equal(t, jobs[0].ID, why.HeadID)
	require.Equal(t, fifo.OverLimit, why.State)
	require.False(t, why.Held)
	require.Regexp(t, "may run since 20.*, and waits: the group is at its limit", why.Reason())
	runs := b.whyJob(jobs[1].ID)
	require.Equal(t, fifo.Held, runs.State)
	require.Equal(t, jobs[0].ID, runs.HeadID)
	require.Equal(t, 1, runs.Ahead)
	require.Equal(t, int(conn.PgConn().PID()), runs.PID)
	require.ErrorIs(t, b.client.Queue("q").Delete(t.Context(), jobs[1].ID), fifo.ErrJobHeld)
	waits := b.whyJob(jobs[2].ID)
	require.Equal(t, fifo.Behind, waits.State)
	require.Contains(t, waits.Reason(), "the group is at its limit")
	require.Empty(t, b.groups(b.client, fifo.Page{}, fifo.Held))

	// A job that a session runs is not what becomes due when a head goes.
	b.exec("UPDATE pgfifo.jobs SET run_at = now() - interval '1 second' WHERE id = $1", jobs[0].ID)
	require.NoError(t, b.client.Queue("q").Delete(t.Context(), jobs[0].ID))
	require.Equal(t, jobs[1:], b.jobs())
}
