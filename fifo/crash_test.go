package fifo_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// watchful is a worker's setting that notices the loss of an idle connection soon.
func watchful(w *fifo.Worker) { w.Heartbeat = 100 * time.Millisecond }

// killAll ends the sessions of a worker, by its name. Other tests' workers may have the same name in their databases.
// The test may end before the handler that calls it.
func (b *bed) killAll(worker string) {
	_, err := b.pool.Exec(context.WithoutCancel(b.t.Context()), "SELECT pg_terminate_backend(pid) FROM "+
		"pg_stat_activity WHERE datname = current_database() AND application_name = $1", worker)
	require.NoError(b.t, err)
}

// kill ends a session, and waits until it is gone.
func (b *bed) kill(ctx context.Context, pid int) error {
	if _, err := b.pool.Exec(ctx, "SELECT pg_terminate_backend($1)", pid); err != nil {
		return err
	}
	for {
		var there bool
		err := b.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)", pid).Scan(&there)
		if err != nil || !there {
			return err
		}
	}
}

// backend asks for the job's transaction, writes to it, and returns its session.
func backend(ctx context.Context, job *fifo.Job) (pid int, err error) {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, "INSERT INTO effects VALUES ($1) RETURNING pg_backend_pid()", job.Attempt()).Scan(&pid)
	return pid, err
}

// deathsOfConnections are ways in which the connection of a running job ends.
var deathsOfConnections = map[string]func(b *bed, ctx context.Context, job *fifo.Job, pid int) error{
	"idle": func(b *bed, ctx context.Context, _ *fifo.Job, pid int) error {
		err := b.kill(ctx, pid)
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	},
	"ignored": func(b *bed, ctx context.Context, _ *fifo.Job, pid int) error {
		err := b.kill(ctx, pid)
		<-ctx.Done()
		return err
	},
	"in a statement": func(b *bed, ctx context.Context, job *fifo.Job, pid int) error {
		return exec(ctx, job, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(3600)")
	},
	"in a statement, ignored": func(b *bed, ctx context.Context, job *fifo.Job, pid int) error {
		tx, err := job.Tx(ctx)
		if err == nil {
			_, _ = tx.ExecContext(ctx, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(3600)")
		}
		return err
	},
	"unnoticed": func(b *bed, ctx context.Context, _ *fifo.Job, pid int) error {
		return b.kill(context.WithoutCancel(ctx), pid)
	},
}

// The connection of a running job is ended: while its handler is busy elsewhere, in the middle of a statement, or too
// late for the handler to notice. The attempt counts as lost, once, what it wrote is gone, and the job runs again.
func TestLostConnection(t *testing.T) { overLeases(t, testLostConnection) }

func testLostConnection(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	b.ledger.overlaps = true
	causes := make(chan error, 1)
	b.exec("CREATE TABLE history AS SELECT group_id, failures FROM pgfifo.jobs WHERE false")
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "next" {
			return nil
		}
		pid, err := backend(ctx, job)
		if err != nil || job.Attempt() > 1 {
			_, kept := b.pool.Exec(ctx,
				"INSERT INTO history SELECT group_id, failures FROM pgfifo.jobs WHERE id = $1", job.ID)
			return errors.Join(err, kept)
		}
		err = deathsOfConnections[job.GroupID](b, ctx, job, pid)
		causes <- context.Cause(ctx)
		return err
	}, watchful))
	for name := range deathsOfConnections {
		ids := b.send(name, "dies", "next")
		cause := receive(t, causes, "the end of the first attempt")
		if name == "idle" || name == "ignored" {
			require.ErrorIs(t, cause, fifo.ErrLost)
		}
		require.ElementsMatch(t, []fifo.Outcome{fifo.Unknown, fifo.Retried, fifo.Succeeded, fifo.Succeeded},
			b.ends(name, 4), name)
		outcomes, errs, order := b.ledger.of(name)
		require.Equal(t, []int64{ids[0], ids[0], ids[1]}, order, name)
		for i, outcome := range outcomes {
			require.Equal(t, outcome == fifo.Succeeded, errs[i] == nil)
		}
		require.Equal(t, []int{2}, b.effects(), name)
		failure := only(t, query[[]fifo.Failure](b, "SELECT failures FROM history WHERE group_id = $1", name))
		require.Equal(t, 1, failure.Attempt)
		require.Equal(t, fifo.KindLost, failure.Kind)
		require.NotEmpty(t, failure.Error)
		require.NotEmpty(t, failure.Worker)
		b.exec("DELETE FROM effects")
	}
}

// Another worker takes over when one has died, without waiting for its poll.
func TestTakeover(t *testing.T) { overLeases(t, testTakeover) }

func testTakeover(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.overlaps = true
	ids := b.send("g", "first", "second")
	h := newBlocking()
	dying := b.run(b.worker(h.handle, oneLane, func(w *fifo.Worker) { w.DrainTimeout = -1 }))
	receive(t, h.started, "the first worker")
	heir := b.run(b.worker(nop, rarePolls))
	pid := b.holder("g")
	dying.cancel() // it would take the job again otherwise
	require.NoError(t, b.kill(t.Context(), pid))
	b.drained()
	require.NoError(t, dying.wait())
	require.NoError(t, heir.stop())
	require.Equal(t, []int64{ids[0], ids[0], ids[1]}, b.ledger.order())
}

// Whatever dies and whenever, groups keep their order and no write of a lost attempt is seen: the jobs of each group
// add themselves to a list in the database, once each.
func TestRandomDeaths(t *testing.T) { overLeases(t, testRandomDeaths) }

func testRandomDeaths(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.overlaps = true
	b.exec("CREATE TABLE list (n serial, group_id text, id bigint PRIMARY KEY)")
	b.sendMany("q", 4, 15)
	b.client = b.open(pgtest.Connect(t, b.url)) // whose sessions may die, too, and not those of the test
	began, over := make(chan int64), make(chan struct{})
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		select {
		case began <- job.ID:
		default: // somebody is being killed
		}
		return bunExec(ctx, job, "INSERT INTO list (group_id, id) VALUES (?, ?)", job.GroupID, job.ID)
	}, watchful, func(w *fifo.Worker) { w.Concurrency, w.MaxAttempts = 4, 1000 }))
	killed := beside(func() error {
		for {
			for range 1 + rand.IntN(4) { // some of the attempts may end: what dies at once each time gets nowhere
				select {
				case <-began:
				case <-over:
					return nil
				}
			}
			if _, err := b.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE datname = current_database() AND backend_xid IS NOT NULL AND pid <> pg_backend_pid()
				ORDER BY random() LIMIT 1`); err != nil {
				return err
			}
		}
	})
	b.drained()
	close(over)
	require.NoError(t, receive(t, killed, "the killer"))
	require.Equal(t, 4*15, query[int](b, "SELECT count(*) FROM list"))
	require.Zero(t, query[int](b, `SELECT count(*) FROM (
		SELECT id < lag(id) OVER (PARTITION BY group_id ORDER BY n) AS wrong FROM list) o WHERE wrong`))
	require.Zero(t, b.count("dead_letters"))
}

// A handler that has failed has failed, also if its connection is gone when that is to be recorded: the worker records
// it on another one.
func TestFailureOnLostConnection(t *testing.T) { overLeases(t, testFailureOnLostConnection) }

func testFailureOnLostConnection(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	b.ledger.overlaps = true
	id := b.send("g", nil)[0]
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		pid, err := backend(ctx, job)
		return fifo.DeadLetter(errors.Join(errOnPurpose, err, b.kill(context.WithoutCancel(ctx), pid)))
	}, oneLane))
	require.Equal(t, []int64{id}, b.ledger.order())
	require.Equal(t, []fifo.Outcome{fifo.Buried}, b.ledger.outcomes())
	failure := only(t, only(t, b.deadLetters()).Failures)
	require.Equal(t, fifo.KindError, failure.Kind)
	require.Equal(t, "on purpose", failure.Error)
	require.Empty(t, b.effects())
}
