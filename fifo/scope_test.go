package fifo_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/migrations"
)

// ending is how the transaction of a scope ends; no functions: it has none of the caller's.
type ending struct{ commit, undo func() error }

type scopeWithin = func(b *bed, s fifo.Scope) (fifo.Scope, ending)

// scopesWithin has the verbs of a scope run on the pool, or in a transaction of every kind.
var scopesWithin = map[string]scopeWithin{
	"pool": func(_ *bed, s fifo.Scope) (fifo.Scope, ending) { return s, ending{} },
	"bun.Tx": func(b *bed, s fifo.Scope) (fifo.Scope, ending) {
		tx, err := b.client.DB().BeginTx(b.t.Context(), nil)
		require.NoError(b.t, err)
		return s.In(tx), ending{tx.Commit, tx.Rollback}
	},
	"*bun.Tx": func(b *bed, s fifo.Scope) (fifo.Scope, ending) {
		tx, err := b.client.DB().BeginTx(b.t.Context(), nil)
		require.NoError(b.t, err)
		return s.InPgx(nil).In(&tx), ending{tx.Commit, tx.Rollback}
	},
	"*sql.Tx": func(b *bed, s fifo.Scope) (fifo.Scope, ending) {
		tx, err := b.client.DB().DB.BeginTx(b.t.Context(), nil)
		require.NoError(b.t, err)
		return s.In(tx), ending{tx.Commit, tx.Rollback}
	},
	"pgx.Tx": func(b *bed, s fifo.Scope) (fifo.Scope, ending) {
		ctx, tx := context.WithoutCancel(b.t.Context()), b.begin()
		return s.In(nil).InPgx(tx), ending{
			func() error { return tx.Commit(ctx) }, func() error { return tx.Rollback(ctx) },
		}
	},
}

// undoneAndKept does something in a transaction that is undone, and again in one that is committed. Nobody may see
// anything of it before. On the pool it is done once.
func (b *bed) undoneAndKept(within scopeWithin, s fifo.Scope, do func(s fifo.Scope), unseen func()) {
	b.t.Helper()
	in, end := within(b, s)
	do(in)
	if end.undo == nil {
		return
	}
	unseen()
	require.NoError(b.t, end.undo())
	unseen()
	in, end = within(b, s)
	do(in)
	unseen()
	require.NoError(b.t, end.commit())
}

// What the verbs do in a transaction is there if and when that commits, and they see it before.
func TestScopeInATransaction(t *testing.T) {
	pgtest.OverAll(t, scopesWithin, func(t *testing.T, within scopeWithin) {
		b := newBed(t)
		b.plant("q", 2, "a")
		b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, failures)
			VALUES ('q', 'a', 1001, 'one', 1, now(), '[{"attempt": 1, "kind": "error", "error": "e", "worker": "w",
			"at": "2026-01-01T00:00:00Z"}]'), ('q', 'a', 1002, 'two', 1, now(), NULL)`)
		b.undoneAndKept(within, b.q.Group("a"), func(s fifo.Scope) {
			b.tidy(s)
			require.False(t, b.runsOne(b.worker(nop)), "it stands still")
		}, func() {
			require.Len(t, b.jobs(), 2)
			require.Len(t, b.deadLetters(), 2)
			require.Empty(t, b.groups(b.client, fifo.Page{}, fifo.Paused))
		})
		job := only(t, b.jobs())
		require.Equal(t, int64(1001), job.ID)
		require.Len(t, job.Failures, 1)
		require.Empty(t, b.deadLetters())
		require.Len(t, b.groups(b.client, fifo.Page{}, fifo.Paused), 1)
	})
}

// tidy pauses a group, purges it, redrives one of its two dead letters and deletes the other.
func (b *bed) tidy(s fifo.Scope) {
	b.t.Helper()
	ctx := b.t.Context()
	require.NoError(b.t, pausing(s.Pause(ctx, "for now")))
	require.Len(b.t, b.jobsOf(s), 2)
	n, err := s.Purge(ctx)
	require.NoError(b.t, err)
	require.Equal(b.t, 2, n)
	require.Empty(b.t, b.groups(s, fifo.Page{}))
	dead := b.lettersOf(s, fifo.Letters{})
	require.Len(b.t, dead, 2)
	require.Equal(b.t, "one", string(dead[0].Payload))
	require.Len(b.t, dead[0].Failures, 1)
	require.Empty(b.t, dead[1].Failures)
	require.Len(b.t, b.redrive(s, again(1001)), 1)
	n, err = s.DeleteDeadLetters(ctx, named(1001, 1002, 1003))
	require.NoError(b.t, err)
	require.Equal(b.t, 1, n)
	d, err := s.Measure(ctx)
	require.NoError(b.t, err)
	require.Equal(b.t, fifo.Depth{Jobs: 1, Groups: 1, OldestAt: d.OldestAt, DueSince: d.DueSince}, d)
	one := only(b.t, b.groups(s, fifo.Page{}, fifo.Paused))
	require.Equal(b.t, "for now", one.PauseReason)
}

// A queue is there that has a job, a dead letter or settings.
func TestQueues(t *testing.T) {
	b := newBed(t)
	names := func() []string {
		list, err := b.client.Queues(t.Context())
		require.NoError(t, err)
		return list
	}
	require.Empty(t, names())
	for _, queue := range []string{"live", "both", "Ä"} {
		b.plant(queue, 2, "a", "b")
	}
	b.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		SELECT queue, group_id, id, '', 1, now() FROM unnest('{dead,both,zz}'::text[], '{a,a,b}'::text[],
		'{1001,1002,1003}'::bigint[]) AS d (queue, group_id, id)`)
	for _, queue := range []string{"both", "set"} {
		require.NoError(t, b.client.Queue(queue).Configure(t.Context(), fifo.Settings{}))
	}
	require.NoError(t, pausing(b.client.Queue("paused").Pause(t.Context(), "")))
	require.Equal(t, []string{"both", "dead", "live", "set", "zz", "Ä"}, names())
	b.exec("DELETE FROM pgfifo.jobs; DELETE FROM pgfifo.dead_letters")
	require.Equal(t, []string{"both", "set"}, names())
}

// verbsOf calls every verb of a scope, with ids where they take some.
func verbsOf(ctx context.Context, s fifo.Scope) map[string]error {
	errs := map[string]error{"pause": pausing(s.Pause(ctx, ""))}
	_, errs["look for a job of"] = s.WhyJob(ctx, 1)
	_, errs["resume"] = s.Resume(ctx)
	_, errs["purge"] = s.Purge(ctx)
	_, errs["move"] = s.Move(ctx, s)
	_, errs["list jobs"] = s.Jobs(ctx, fifo.Page{})
	_, errs["list dead letters"] = s.DeadLetters(ctx, fifo.Letters{})
	_, errs["list groups"] = s.Groups(ctx, fifo.Page{})
	_, _, errs["redrive"] = s.Redrive(ctx, again(1))
	_, errs["delete dead letters"] = s.DeleteDeadLetters(ctx, named(1))
	_, errs["measure"] = s.Measure(ctx)
	return errs
}

// nowhere returns a client whose database cannot be reached.
func nowhere(t *testing.T, adjust ...func(*fifo.Config)) *fifo.Client {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nowhere")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	cfg := fifo.Config{}
	for _, f := range adjust {
		f(&cfg)
	}
	c := fifo.Open(pool, &cfg)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// What is empty or cannot be is an error before any SQL, and never means all.
func TestScopesAreChecked(t *testing.T) {
	t.Parallel()
	c, ctx := nowhere(t), t.Context()
	q, long := c.Queue("q"), strings.Repeat("x", groups.MaxIDBytes+1)
	for _, s := range []fifo.Scope{
		{},
		fifo.Scope{}.Group("a"), c.Queue(""), c.Queue("").Group("a"), c.Queue("q\n"), c.Queue("\x00").Group("a"),
		q.Group(""), q.Group("a").Group(""), q.Group("\x00"), q.Group("\xff"), q.Group(long), c.Queue(long),
		fifo.Scope{}.In(&sql.Tx{}), fifo.Scope{}.InPgx(&pgxpool.Tx{}), fifo.Scope{}.Group("a").InPgx(&pgxpool.Tx{}),
	} {
		errs := verbsOf(ctx, s)
		_, _, errs["redrive none"] = s.Redrive(ctx, again())
		_, _, errs["redrive all"] = s.Redrive(ctx, allAgain)
		_, errs["delete none"] = s.DeleteDeadLetters(ctx, named())
		_, errs["delete all"] = s.DeleteDeadLetters(ctx, fifo.Letters{All: true})
		_, errs["move to"] = q.Move(ctx, s)
		_, errs["move from"] = s.Move(ctx, q)
		errs["wait"] = s.WaitEmpty(ctx)
		_, errs["terminate"] = s.Group("").Terminate(ctx)
		_, _, errs["cancel"] = s.Cancel(ctx, "")
		for verb, f := range oneJob {
			errs[verb] = f(ctx, s, 1)
		}
		for verb, err := range errs {
			require.ErrorIs(t, err, fifo.ErrInvalidID, "%s %q", verb, s)
		}
	}
	for verb, err := range verbsOf(ctx, q) {
		require.Error(t, err, verb)
		require.NotErrorIs(t, err, fifo.ErrInvalidID, verb)
	}
}

func TestScopeInNoTransaction(t *testing.T) {
	t.Parallel()
	q := nowhere(t).Queue("q")
	for _, s := range []fifo.Scope{
		q.In(nil), q.In(bun.Tx{}), q.In((*bun.Tx)(nil)), q.In((*sql.Tx)(nil)), q.InPgx(nil),
		q.InPgx((*pgxpool.Tx)(nil)).Group("g"),
	} {
		for verb, err := range verbsOf(t.Context(), s) {
			require.ErrorContains(t, err, "nil transaction", verb)
		}
	}
}

// Errors say what was to be done, and to what.
func TestErrorsOfVerbs(t *testing.T) {
	b := newBed(t)
	for _, x := range []struct {
		schema string
		want   error
	}{
		{"pg_mine", schema.ErrInvalid}, {"not there?", migrations.ErrNotMigrated},
	} {
		c := fifo.Open(b.pool, &fifo.Config{Schema: x.schema})
		for verb, err := range verbsOf(t.Context(), c.Queue("q")) {
			require.ErrorIs(t, err, x.want, verb)
		}
		require.ErrorIs(t, second(c.Pauses(t.Context())), x.want)
		require.NoError(t, c.Close())
	}
	b.exec("DROP TABLE pgfifo.jobs, pgfifo.dead_letters, pgfifo.pauses")
	for verb, err := range verbsOf(t.Context(), b.q.Group("g")) {
		require.ErrorContains(t, err, "fifo: "+verb)
		require.ErrorContains(t, err, "q/g")
	}
	for verb, err := range verbsOf(t.Context(), b.q) {
		require.ErrorContains(t, err, "q: ", verb)
	}
	require.ErrorContains(t, second(b.client.Pauses(t.Context())), "fifo: list pauses of all queues")
}

// WaitEmpty waits for the last job of the queue or the group, and for no other.
func TestWaitEmpty(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.WaitEmpty(promptly(t)), "there is no such queue")
	b.plant("p", 1, "g")
	b.plant("r", 1, "g")
	b.plant("q", 1, "a", "c", "é")
	require.NoError(t, b.q.Group("b").WaitEmpty(promptly(t)))
	for _, s := range []fifo.Scope{b.q, b.q.Group("é"), b.q.Group("c")} {
		h := newBlocking()
		r := b.run(b.worker(h.handle, func(w *fifo.Worker) { w.Concurrency = 3 }))
		for range 3 {
			receive(t, h.started, "a job")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		require.ErrorIs(t, s.WaitEmpty(ctx), context.DeadlineExceeded, "they run")
		cancel()
		ended := beside(func() error { return s.WaitEmpty(promptly(t)) })
		close(h.release)
		require.NoError(t, receive(t, ended, "the end"))
		require.NoError(t, r.stop())
		b.plant("q", 1, "a", "c", "é")
	}
}
