package fifo_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// oneKeeper returns the session that holds the groups of the one worker, waiting for one.
func (b *bed) oneKeeper() (pid int) {
	b.t.Helper()
	await(b.t, "a session that holds groups", func() bool {
		return b.pool.QueryRow(b.t.Context(), `SELECT k.pid FROM pgfifo.keepers k
			JOIN pgfifo.queue_groups g USING (session) LIMIT 1`).Scan(&pid) == nil
	})
	return pid
}

// A handler that ignores its context does not complete the job, nor get its transaction, when the group was taken from
// it, whether its successor has begun or not.
func TestTerminateAStubbornHandler(t *testing.T) {
	pgtest.OverAll(t, map[string]bool{"before": false, "beside": true}, func(t *testing.T, succeeds bool) {
		b := newList(t, func(c *fifo.Config) { c.PollOnly = true })
		b.ledger.overlaps = true
		bySession.on(b)
		b.send("g", "stuck")
		started, release, errs := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		first := b.worker(func(ctx context.Context, job *fifo.Job) error {
			close(started)
			<-release
			errs <- note(ctx, job)
			return nil
		})
		r := b.run(first)
		receive(t, started, "a handler")
		require.True(t, b.terminates(b.q.Group("g")))
		h := newBlocking()
		second := b.worker(func(ctx context.Context, job *fifo.Job) error {
			if err := note(ctx, job); err != nil {
				return err
			}
			return h.handle(ctx, job)
		})
		if succeeds {
			b.run(second)
			receive(t, h.started, "the successor")
		}
		r.cancel()
		close(release)
		require.ErrorIs(t, receive(t, errs, "the handler's transaction"), fifo.ErrLost)
		require.NoError(t, r.wait())
		require.Len(t, b.jobs(), 1)
		if !succeeds {
			b.run(second)
			receive(t, h.started, "the successor")
		}
		close(h.release)
		b.drained()
		require.Equal(t, []int{2}, query[[]int](b, "SELECT array_agg(attempt) FROM list"))
	})
}

// What takes a group from a session is part of the caller's transaction.
func TestTerminateInATransaction(t *testing.T) {
	pgtest.OverAll(t, scopesWithin, func(t *testing.T, within scopeWithin) {
		b := bySession.on(newBed(t))
		b.plant("q", 1, "g")
		b.kept("g", b.jobs()[0].ID)
		e := b.listen()
		b.undoneAndKept(within, b.q.Group("g"), func(s fifo.Scope) {
			require.True(t, b.terminates(s))
		}, func() {
			require.Equal(t, fifo.Held, b.why("g").State)
			require.Empty(t, e.before())
		})
		require.Equal(t, fifo.Due, b.why("g").State)
		require.JSONEq(t, `{"q":"q","g":[{"g":"g","i":0}],"c":true}`, e.next())
		require.JSONEq(t, `{"q":"q","g":[{"g":"g","i":0}]}`, e.next())
	})
}

// The session that holds a worker's groups is not ended, whatever rows it has locked at that moment.
func TestTerminateLeavesTheSession(t *testing.T) {
	b := bySession.on(newBed(t))
	b.plant("q", 1, "g", "other")
	jobs := b.jobs()
	conn := b.kept("g", jobs[0].ID)
	_, err := conn.Exec(t.Context(), `BEGIN; SELECT FROM pgfifo.jobs FOR NO KEY UPDATE;
		UPDATE pgfifo.queue_groups SET attempt = 1`)
	require.NoError(t, err)
	require.False(t, b.terminates(b.q.Group("other")))
	require.False(t, b.terminates(b.q.Group("g")), "it could not be taken")
	require.NoError(t, second(conn.Exec(t.Context(), "COMMIT")))
	require.True(t, b.terminates(b.q.Group("g")))
	require.NoError(t, conn.Ping(t.Context()))
}

// Of a batch of groups of which one is taken nothing commits. The others run again, and no attempt of theirs is
// counted.
func TestTerminateInABatchBySession(t *testing.T) {
	b := bySession.on(newList(t))
	b.plant("q", 1, "a", "b", "c")
	h := newBlocking()
	var taken atomic.Bool
	w := b.each(fifo.Queue{BatchGroups: 3}, func(ctx context.Context, job *fifo.Job) error {
		switch {
		case job.Attempts == 0 && job.GroupID == "b":
			return h.handle(ctx, job)
		case !taken.Load(): // with a transaction, that would be ended
			return nil
		}
		return note(ctx, job)
	}, func(w *fifo.Worker) { w.SessionConcurrency = 1 })
	b.run(w)
	receive(t, h.started, "a handler")
	b.listening()
	taken.Store(true)
	require.True(t, b.terminates(b.q.Group("b")))
	require.ErrorIs(t, receive(t, h.causes, "the end of the context"), fifo.ErrLost)
	b.drained()
	ran := query[[]string](b, "SELECT array_agg(group_id || '/' || attempt) FROM list")
	require.Contains(t, ran, "b/2")
	require.NotContains(t, ran, "a/2")
	require.NotContains(t, ran, "c/2")
}

// Terminate ends no transaction that completes jobs of other groups as well.
func TestTerminateBesideCompletions(t *testing.T) {
	b := bySession.on(newBed(t))
	b.exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF OLD.group_id = 'slow' THEN PERFORM pg_sleep(0.5); END IF; RETURN OLD; END $$;
		CREATE TRIGGER slow BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION slow()`)
	const innocents = 10
	b.sendMany("q", innocents, 1)
	b.send("slow", nil)
	g := newGauge()
	w := b.worker(g.handle, func(w *fifo.Worker) { w.Concurrency = innocents + 1 })
	r := b.run(w)
	g.reach(t, innocents+1)
	close(g.open)
	await(t, "the completion", func() bool {
		return query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE wait_event = 'PgSleep' AND datname = current_database())`)
	})
	b.terminates(b.q.Group("slow"))
	r.finish()
	require.Zero(t, w.Stats().Lost)
	require.EqualValues(t, innocents+1, w.Stats().Succeeded)
}

// The group is taken while the answer of its claim is on its way to the worker: its handler does not begin, or
// its context ends at once.
func TestTerminateOfAClaim(t *testing.T) {
	b := bySession.on(newBed(t))
	claim, dam := b.slowClaims(), netfault.NewDam("Claims the heads of those groups")
	client := b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.DialFunc = dam.Dial(cfg.ConnConfig.DialFunc)
	}))
	b.send("g", nil)
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.Attempts > 0 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}, func(w *fifo.Worker) { w.Client = client })
	r := b.run(w)
	b.listening()
	claim.begins()
	dam.Shut()
	claim.ends()
	await(t, "its commit", func() bool { return b.sessionGroups() == 1 })
	require.True(t, b.terminates(b.q.Group("g")))
	b.ruled()
	dam.Open()
	r.finish()
	require.Equal(t, int64(1), w.Stats().Lost)
}
