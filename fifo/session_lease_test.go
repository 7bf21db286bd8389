package fifo_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Jobs of many groups run in order, far more at once than the worker has connections, and complete with what their
// handlers write.
func TestSessionLease(t *testing.T) {
	b := bySession.on(newBed(t))
	b.exec("CREATE TABLE done (n bigserial, job bigint PRIMARY KEY, group_id text)")
	b.sendMany("q", 30, 3)
	g := newGauge()
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.ID <= 30 {
			_ = g.handle(ctx, job)
		}
		return exec(ctx, job, "INSERT INTO done (job, group_id) VALUES ($1, $2)", job.ID, job.GroupID)
	}, func(w *fifo.Worker) { w.SessionConcurrency = 40 })
	r := b.run(w)
	g.reach(t, 30)
	require.Equal(t, 0, query[int](b, `SELECT count(*) FROM pg_stat_activity
		WHERE backend_xid IS NOT NULL AND datname = current_database()`))
	require.Equal(t, 1, query[int](b, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
	close(g.open)
	r.finish()
	require.Equal(t, 90, query[int](b, "SELECT count(*) FROM done"))
	require.Equal(t, 0, query[int](b, `SELECT count(*) FROM done a JOIN done b USING (group_id)
		WHERE a.n < b.n AND a.job > b.job`))
	require.Zero(t, b.sessionGroups())
}

// Of a batch of groups one job is given back, and the other one is done: that one alone is completed.
func TestSessionCompletesWhatIsDone(t *testing.T) {
	b := bySession.on(newBed(t))
	h := newBlocking()
	// The first one may be handed out before the others are in line. They are by the time it has ended.
	b.plant("q", 1, "a", "b", "c")
	r := b.run(b.each(fifo.Queue{BatchGroups: 2}, func(ctx context.Context, job *fifo.Job) error {
		if b.ledger.started() != 2 {
			return nil
		}
		return h.handle(ctx, job)
	}))
	canceled := receive(t, h.started, "the first job of a batch")
	require.Equal(t, 2, b.sessionGroups())
	b.listening()
	require.NoError(t, pausing(b.q.Group(b.ledger.starts[1].GroupID).Cancel(t.Context(), "")))
	await(t, "the groups to be let go", func() bool { return b.sessionGroups() == 0 })
	require.NoError(t, r.stop())
	require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Returned, fifo.Succeeded}, b.ledger.outcomes())
	require.Len(t, b.jobs(), 1)
	require.Equal(t, canceled, b.jobs()[0].ID)
	require.Zero(t, b.jobs()[0].Attempts)
}

// sessionGroups returns how many groups are a session's.
func (b *bed) sessionGroups() int {
	b.t.Helper()
	return query[int](b, "SELECT count(*) FROM pgfifo.queue_groups WHERE session IS NOT NULL")
}

// What is given back at the end is let go before the session ends, although somebody has the table locked for a while.
func TestGivenBackBesideALockedTable(t *testing.T) {
	b := bySession.on(newBed(t))
	b.ledger.overlaps = true
	b.send("g", nil)
	h := newBlocking()
	r := b.run(b.worker(h.handle, oneLane, func(w *fifo.Worker) {
		w.DrainTimeout, w.Heartbeat = time.Millisecond, 3*time.Second
	}))
	receive(t, h.started, "the handler")
	tx := b.beginWith("LOCK TABLE pgfifo.queue_groups IN ACCESS EXCLUSIVE MODE")
	r.cancel()
	await(t, "the session to wait", func() bool {
		return query[bool](b, `SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)
			WHERE l.relation = 'pgfifo.queue_groups'::regclass AND NOT l.granted
			  AND a.query_start < clock_timestamp() - interval '1.5 s')`)
	})
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, r.wait())
	w := b.worker(nop, func(w *fifo.Worker) { w.MaxAttempts = 1 })
	b.work(w)
	require.Zero(t, w.Stats().Lost)
	require.Empty(t, b.deadLetters())
}

// All handlers of a worker hear that its session has ended, also those that have no transaction and are idle, and their
// jobs run again.
func TestLossOfASessionIsTold(t *testing.T) {
	b := bySession.on(newBed(t))
	b.ledger.overlaps = true
	const n = 3
	b.sendMany("q", n, 1)
	h := newBlocking()
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.Attempt() > 1 {
			return nil
		}
		return h.handle(ctx, job)
	}, func(w *fifo.Worker) { w.SessionConcurrency = n })
	b.run(w)
	for range n {
		receive(t, h.started, "a handler")
	}
	require.NoError(t, b.kill(t.Context(), b.keeper("g0")))
	for range n {
		require.ErrorIs(t, receive(t, h.causes, "a handler's end"), fifo.ErrLost)
	}
	b.drained()
	require.EqualValues(t, n, w.Stats().Lost)
}

// Who waits for the job's transaction waits no longer than the session lives, whatever context he asks with.
func TestSessionEndsTheWaitForATransaction(t *testing.T) {
	b := bySession.on(newBed(t))
	b.ledger.overlaps = true
	b.send("first", nil)
	got, goOn, asks := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	var once sync.Once
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		switch {
		case job.GroupID == "first" && job.Attempt() == 1:
			_, err := job.PgxTx(ctx)
			got <- struct{}{}
			<-goOn
			return err
		case job.GroupID == "second":
			once.Do(func() {
				_, err := job.PgxTx(context.WithoutCancel(ctx))
				asks <- err
			})
		}
		return ctx.Err()
	}, watchful, func(w *fifo.Worker) { w.Concurrency, w.SessionConcurrency = 1, 2 }))
	defer close(goOn)
	receive(t, got, "the first one's transaction")
	b.send("second", nil)
	await(t, "the second one", func() bool { return b.keeper("second") != 0 })
	require.NoError(t, b.kill(t.Context(), b.keeper("second")))
	require.ErrorIs(t, receive(t, asks, "the end of the wait"), fifo.ErrLost)
}

// Nor does he wait longer than the handler's context lives. A connection that is free is his after that, too.
func TestHandlersContextEndsTheWaitForATransaction(t *testing.T) {
	b := bySession.on(newBed(t))
	b.send("first", nil)
	got, goOn, asks := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID == "first" {
			_, err := job.PgxTx(ctx)
			got <- struct{}{}
			<-goOn
			return err
		}
		ctx = context.WithoutCancel(ctx)
		_, err := job.PgxTx(ctx)
		asks <- err
		await(t, "the first one's connection", func() bool { // it is given back behind the COMMIT
			err = exec(ctx, job, "SELECT")
			return !errors.Is(err, fifo.ErrCanceled)
		})
		return err
	}, func(w *fifo.Worker) { w.Concurrency, w.SessionConcurrency, w.JobTimeout = 1, 2, -1 }))
	receive(t, got, "the first one's transaction")
	b.send("second", nil)
	await(t, "the second one", func() bool { return b.keeper("second") != 0 })
	b.listening()
	require.NoError(t, pausing(b.q.Group("second").Cancel(t.Context(), "")))
	require.ErrorIs(t, receive(t, asks, "the end of the wait"), fifo.ErrCanceled)
	close(goOn)
	b.drained()
	require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ends("second", 1))
}

// Jobs that somebody has locked when they are done keep no other waiting for long.
func TestLockedJobsKeepNoOtherWaiting(t *testing.T) {
	const n = 60
	b := bySession.on(newBed(t))
	done := make(chan struct{})
	w := b.worker(func(_ context.Context, job *fifo.Job) error {
		if job.GroupID != "quick" {
			<-done
		}
		return nil
	}, func(w *fifo.Worker) { w.SessionConcurrency, w.Concurrency = n+1, 2 })
	b.sendMany("q", n, 1)
	b.run(w)
	await(t, "all", func() bool { return w.Stats().Running == n })
	tx := b.beginWith("SELECT FROM pgfifo.jobs FOR UPDATE")
	close(done)
	await(t, "a wait", func() bool { return b.blocked() > 0 })
	b.send("quick", make([]any, 20)...)
	await(t, "the others", func() bool { return b.count("jobs") == n })
	require.NoError(t, tx.Rollback(t.Context()))
	b.drained()
}

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
	pid := b.keeper("g")
	check := func() fifo.Status {
		t.Helper()
		why := b.why("g")
		require.Equal(t, why, only(t, b.groups(b.client, fifo.Page{}, fifo.Held)))
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
	require.ErrorIs(t, b.q.Delete(t.Context(), jobs[1].ID), fifo.ErrJobHeld)
	waits := b.whyJob(jobs[2].ID)
	require.Equal(t, fifo.Behind, waits.State)
	require.Contains(t, waits.Reason(), "the group is at its limit")
	require.Empty(t, b.groups(b.client, fifo.Page{}, fifo.Held))

	// A job that a session runs is not what becomes due when a head goes.
	b.exec("UPDATE pgfifo.jobs SET run_at = now() - interval '1 second' WHERE id = $1", jobs[0].ID)
	require.NoError(t, b.q.Delete(t.Context(), jobs[0].ID))
	require.Equal(t, jobs[1:], b.jobs())
}

// Groups whose completions take long keep those of others waiting a few times, and not again and again.
func TestSlowCompletionsKeepNoOtherWaiting(t *testing.T) {
	b := bySession.on(newBed(t))
	b.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_sleep(0.3); RETURN OLD; END';
		CREATE TRIGGER slow BEFORE DELETE ON pgfifo.jobs FOR EACH ROW WHEN (OLD.group_id LIKE 'slow%')
			EXECUTE FUNCTION slow();
		INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'quick' || g, '' FROM generate_series(1, 10) g, generate_series(1, 100) n;
		INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'slow' || g, '' FROM generate_series(1, 2) g, generate_series(1, 1000) n`)
	r := b.run(b.worker(nop, func(w *fifo.Worker) { w.DrainTimeout, w.SessionConcurrency = -1, 50 }))
	require.True(t, pgtest.Wait(4*patience, func() bool {
		return query[bool](b, "SELECT NOT EXISTS (SELECT FROM pgfifo.jobs WHERE group_id LIKE 'quick%')")
	}))
	require.NoError(t, r.stop())
	require.Greater(t, b.count("jobs"), 1880, "else 1,000 quick ones wait for more than a hundred slow ones")
}

// Where each transaction takes long, however little it completes, jobs are completed together.
func TestSlowTransactionsCompleteTogether(t *testing.T) {
	b := bySession.on(newBed(t))
	b.exec(`CREATE SEQUENCE transactions;
		CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
			$$BEGIN PERFORM pg_sleep(0.3), nextval('transactions'); RETURN NULL; END$$;
		CREATE TRIGGER slow AFTER DELETE ON pgfifo.jobs FOR EACH STATEMENT EXECUTE FUNCTION slow();
		INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'g' || g, '' FROM generate_series(1, 100) g, generate_series(1, 5) n`)
	r := b.run(b.worker(nop, func(w *fifo.Worker) { w.DrainTimeout, w.SessionConcurrency = -1, 100 }))
	b.drained()
	require.NoError(t, r.stop())
	// Of 500 jobs. Tries that were ended count, too.
	require.Less(t, query[int](b, "SELECT last_value FROM transactions"), 200)
}
