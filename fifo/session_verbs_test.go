package fifo_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// kept has a session of its own run a job of queue q, as a worker's claim says it. It ends with the connection.
func (b *bed) kept(group string, job int64) *pgx.Conn {
	b.t.Helper()
	conn, number := pgtest.Conn(b.t, b.url), 1+rand.Int64N(1<<62)
	_, err := conn.Exec(b.t.Context(), "SELECT pg_advisory_lock($1)", number)
	require.NoError(b.t, err)
	b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id, session, token, job, attempt, since)
		VALUES ('q', $1, $2, nextval('pgfifo.fences_token_seq'), $3, 1, now() - interval '1 minute')
		ON CONFLICT (queue, group_id) DO UPDATE SET session = EXCLUDED.session, token = EXCLUDED.token,
			job = EXCLUDED.job, attempt = EXCLUDED.attempt, since = EXCLUDED.since`, group, number, job)
	return conn
}

// gone ends a session, and waits for its end.
func (b *bed) gone(conn *pgx.Conn) {
	b.t.Helper()
	pid := conn.PgConn().PID()
	require.NoError(b.t, conn.Close(b.t.Context()))
	await(b.t, "the end of a session", func() bool {
		return query[bool](b, "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid)
	})
}

// all runs the verbs for one job on a job, and those for many on its group, and returns how many jobs those have taken.
// Each is undone.
func (b *bed) all(tx pgx.Tx, id int64, check func(name string, err error)) (taken []int) {
	b.t.Helper()
	ctx, undone := promptly(b.t), errors.New("undone")
	within := func(do func(q fifo.Scope)) {
		require.ErrorIs(b.t, pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
			do(b.q.InPgx(savepoint))
			return undone
		}), undone)
	}
	for name, verb := range oneJob {
		within(func(q fifo.Scope) { check(name, verb(ctx, q, id)) })
	}
	for _, many := range []func(q fifo.Scope) (int, error){
		func(q fifo.Scope) (int, error) { return q.Move(ctx, b.client.Queue("elsewhere")) },
		func(q fifo.Scope) (int, error) { return q.Group("g").Move(ctx, q.Group("elsewhere")) },
		func(q fifo.Scope) (int, error) { return q.Purge(ctx) },
		func(q fifo.Scope) (int, error) { return q.Group("g").Purge(ctx) },
	} {
		within(func(q fifo.Scope) {
			n, err := many(q)
			require.NoError(b.t, err)
			taken = append(taken, n)
		})
	}
	return taken
}

// What a session that has died has left behind is no job that runs, nor is one beside the job that a session runs.
func TestVerbsTakeWhatNoSessionRuns(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, dead bool) {
		b := bySession.on(newBed(t))
		b.plant("q", 2, "g")
		jobs := b.jobs()
		conn, at, want := b.kept("g", jobs[0].ID), jobs[1].ID, []int{1, 1, 1, 1}
		if dead {
			b.gone(conn)
			at, want = jobs[0].ID, []int{2, 2, 2, 2}
		}
		tx := b.begin()
		require.Equal(t, want, b.all(tx, at, func(name string, err error) { require.NoError(t, err, name) }))
	})
}

// A claim that commits when a verb has begun, and before it has locked the job, is seen: the verb asks for it behind
// the lock. So it is if the queue has been given the lease by then.
func TestVerbsLookBehindTheLock(t *testing.T) {
	pgtest.OverNamed(t, map[string][]any{
		"lock_job": {"q", "g", int64(1)}, "purge": {"q", "g"}, "move": {"q", "g", "elsewhere", nil, false},
	}, func(t *testing.T, file string, args []any) {
		pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, meanwhile bool) {
			b := newBed(t)
			if !meanwhile {
				bySession.on(b)
			}
			b.plant("q", 1, "g")
			before := b.jobs()
			require.Equal(t, int64(1), before[0].ID)
			sql, err := os.ReadFile("sql/" + file + ".sql")
			require.NoError(t, err)
			waits := pgtest.Mutate(t, string(sql), "WHERE j.queue = $1",
				"WHERE pg_advisory_xact_lock_shared(7) IS NOT NULL AND j.queue = $1")
			gate := b.beginWith("SELECT pg_advisory_xact_lock(7)")
			verb, tag := pgtest.Conn(t, b.url), pgconn.CommandTag{}
			ended := beside(func() (err error) {
				tag, err = verb.Exec(context.WithoutCancel(t.Context()), waits, args...)
				return err
			})
			await(t, "the verb to begin", func() bool {
				return query[bool](b, "SELECT cardinality(pg_blocking_pids($1)) > 0", verb.PgConn().PID())
			})
			if meanwhile {
				bySession.on(b)
			}
			b.kept("g", before[0].ID)
			require.NoError(t, gate.Rollback(t.Context()))
			require.NoError(t, receive(t, ended, "the verb"))
			if file != "purge" { // which answers with a number
				require.Zero(t, tag.RowsAffected())
			}
			require.Equal(t, before, b.jobs())
			require.Empty(t, b.deadLetters())
		})
	})
}

// A transaction whose snapshot is older than its locks does not see who runs what: it is told so.
func TestVerbsOnSessionsAtRepeatableRead(t *testing.T) {
	b := bySession.on(newBed(t))
	b.plant("q", 1, "g")
	b.plant("other", 1, "g")
	for _, queue := range []string{"q", "other"} {
		err := pgx.BeginTxFunc(t.Context(), b.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
			n, err := b.client.Queue(queue).InPgx(tx).Purge(t.Context())
			if err == nil {
				require.Equal(t, 1, n)
			}
			return err
		})
		if queue == "other" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "0A000")
	}
}

// A job that a session runs, or has died with, keeps its payload.
func TestReplaceWhatASessionRuns(t *testing.T) {
	b := bySession.on(newBed(t))
	id := b.sendAll(newer("g", "a", "older"))[0]
	conn := b.kept("g", id)
	require.False(t, b.replaces(id, newer("g", "a", "newer")))
	b.gone(conn)
	require.False(t, b.replaces(id, newer("g", "a", "newer")))
	b.kept("g", id+1)
	b.exec("UPDATE pgfifo.queue_groups SET session = NULL")
	require.True(t, b.replaces(id, newer("g", "a", "newer")), "it was given back")
	b.work(b.worker(nop))
	require.Equal(t, "newer", strings.Join(b.ledger.payloads(), " "))
}

// A job that has died with its session is buried before anybody counts that, and redriven: it has all its attempts.
func TestRedriveOfWhatASessionDiedWith(t *testing.T) {
	b := bySession.on(newBed(t))
	id := b.send("g", "a")[0]
	b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id, session, token, job, attempt, since)
		VALUES ('q', 'g', 1000, 1, $1, 1, now())`, id)
	g := b.q.Group("g")
	require.NoError(t, g.Bury(t.Context(), id, "look at it"))
	b.redrive(g, fifo.Redrive{Letters: fifo.Letters{All: true}})
	b.work(b.worker(nop, func(w *fifo.Worker) { w.MaxAttempts = 1 }))
	require.Empty(t, b.deadLetters())
}

// A job runs, also for what its own handler does in the job's transaction, or beside it.
func TestVerbsPassOverTheJobThatCalls(t *testing.T) {
	type row struct {
		settings fifo.Settings
		beside   bool
	}
	session := fifo.Settings{SessionLease: true}
	pgtest.OverAll(t, map[string]row{
		"one": {}, "several": {fifo.Settings{GroupLimit: 2}, false}, "session": {session, false},
		"beside the job of a session": {session, true},
	}, func(t *testing.T, x row) {
		b := newList(t)
		require.NoError(t, b.q.Configure(t.Context(), x.settings))
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			name := string(job.Payload)
			if name == "waits" {
				return note(ctx, job)
			}
			call := func(tx pgx.Tx) error {
				if name == "move" {
					require.Equal(t, []int{1, 1, 1, 1}, b.all(tx, job.ID, func(name string, err error) {
						require.ErrorIs(t, err, fifo.ErrJobHeld, name)
					}))
				}
				g, n, err := b.q.InPgx(tx).Group("g"), 1, error(nil)
				switch name {
				case "move":
					n, err = g.Move(ctx, g.Group("h"))
				case "purge":
					n, err = g.Purge(ctx)
				default:
					require.ErrorIs(t, oneJob[name](ctx, g, job.ID), fifo.ErrJobHeld)
				}
				require.Equal(t, 1, n, name)
				return err
			}
			if x.beside {
				return pgx.BeginFunc(ctx, b.pool, call)
			}
			return errors.Join(note(ctx, job), withPgx(func(_ context.Context, _ *fifo.Job, tx pgx.Tx) error {
				return call(tx)
			})(ctx, job))
		}, oneLane))
		for _, name := range []string{"move", "purge", "retry", "delete", "bury", "edit"} {
			ids := b.send("g", name, "waits")
			b.drained()
			want := 2
			if name == "purge" {
				want--
			}
			if x.beside {
				want--
			}
			require.Equal(t, want, query[int](b, "SELECT count(*) FROM list"), name)
			require.Empty(t, b.deadLetters(), name)
			b.exec("DELETE FROM list")
			b.ledger.sent = ids[:1]
		}
		for _, err := range b.ledger.errs() {
			require.NoError(t, err)
		}
	})
}

// A job that its handler enqueues again, to replace what waits, is no such thing: it runs.
func TestReplaceTheJobThatCalls(t *testing.T) {
	b := newBed(t)
	b.send("h", make([]any, tuning.Many)...) // the first jobs of a lane are marked
	replaced := make(chan bool, 1)
	enqueue := withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
		got, err := b.client.EnqueuePgxTx(ctx, tx, newer("g", "a", "newer"))
		replaced <- err == nil && got[0].Replaced
		return err
	})
	r := b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID == "h" {
			return nil
		}
		return enqueue(ctx, job)
	}, oneLane))
	b.drained()
	b.sendAll(newer("g", "a", "older"))
	r.finish()
	require.False(t, <-replaced)
}
