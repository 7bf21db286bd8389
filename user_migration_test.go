package pgfifo_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// An office is a site with accounts of the user's, to which all handlers write but those of group "elsewhere". The job
// "long" stays in its transaction, after it has written, until finish is called.
type office struct {
	*site
	began  chan struct{}
	finish func()
}

func newOffice(t *testing.T) *office {
	o := &office{site: newSite(t), began: make(chan struct{})}
	o.Exec("CREATE TABLE accounts (id text PRIMARY KEY, n bigint NOT NULL)")
	finish := make(chan struct{})
	o.finish = sync.OnceFunc(func() { close(finish) })
	began := sync.OnceFunc(func() { close(o.began) })
	w := &fifo.Worker{
		Client: o.client, Concurrency: 4, PollInterval: 100 * time.Millisecond,
		Retry: atOnce,
	}
	w.Handle(queue, func(ctx context.Context, job *fifo.Job) error {
		tx, err := writeEffect(ctx, job)
		if err == nil && job.GroupID != "elsewhere" {
			_, err = tx.Exec(ctx,
				"INSERT INTO accounts VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = accounts.n + 1", job.GroupID)
		}
		if err != nil {
			return err
		}
		switch string(job.Payload) {
		case `"long"`:
			began()
			<-finish
		case `"hopeless"`:
			return fifo.DeadLetter(nil)
		}
		return nil
	})
	stop := background(o.T, w.Run)
	t.Cleanup(func() { // before stop
		o.finish()
		stop()
	})
	return o
}

// atLongJob returns an office of four lanes that is at the first job of group g, which is long, with that and the next.
func atLongJob(t *testing.T) (*office, []int64) {
	o := newOffice(t)
	ids := o.send("g", "long", "next")
	receive(o.T, patience, o.began, "the long job")
	return o, ids
}

func (o *office) send(group string, payloads ...string) []int64 {
	o.Helper()
	msgs := make([]fifo.Message, len(payloads))
	for i, p := range payloads {
		msgs[i] = fifo.Message{Queue: queue, GroupID: group, Payload: `"` + p + `"`}
	}
	return o.enqueue(msgs...)
}

// migrate runs a statement in a session of its own, and returns what tells how it ended.
func (o *office) migrate(settings, sql string) <-chan error {
	o.Helper()
	c := o.Session()
	c.Do("SET application_name = 'migration'; " + settings)
	ended := make(chan error, 1)
	c.Go(func() {
		_, err := c.Conn.Exec(o.Context(), sql)
		ended <- err
	})
	return ended
}

// blocked tells how many sessions wait for a lock, apart from the migration itself.
func (o *office) blocked() int {
	return o.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND wait_event_type = 'Lock' AND application_name <> 'migration'`)
}

func (o *office) migrationWaits() {
	o.Helper()
	o.until("the migration to wait", func() bool {
		return o.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND application_name = 'migration'`) == 1
	})
}

const (
	patient   = "SET lock_timeout = 0"
	impatient = "SET lock_timeout = '200ms'"
)

func requireLockTimeout(t *testing.T, err error) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, "55P03", pgErr.Code)
}

// ALTER TABLE on a table of the user's waits for each running job that has used it, and behind it waits everybody else
// who wants to: the lanes whose handlers do are stuck with it, their groups and no others. Without a lock_timeout that
// lasts as long as the longest job; with one, no longer than that. Either way it all goes on, in order.
func TestMigrationOfAUsersTable(t *testing.T) {
	const sql = "ALTER TABLE accounts ADD COLUMN note text"
	type migration struct {
		settings string
		check    func(o *office, ended <-chan error)
	}
	pgtest.OverAll(t, map[string]migration{
		"without a lock_timeout": {patient, func(o *office, ended <-chan error) {
			o.migrationWaits()
			elsewhere := o.send("elsewhere", "a", "b", "c")
			for _, g := range []string{"1", "2"} {
				o.send(g, "a", "b")
			}
			o.until("two handlers to wait behind the migration", func() bool { return o.blocked() == 2 })
			o.until("the group that uses no accounts", func() bool {
				return len(o.effects()["elsewhere"]) == len(elsewhere)
			})
			require.Empty(o, o.effects()["1"])
			o.finish()
			require.NoError(o, receive(o.T, patience, ended, "the migration"))
		}},
		"with a lock_timeout": {impatient, func(o *office, ended <-chan error) {
			for _, g := range []string{"1", "2"} {
				o.send(g, "a", "b")
			}
			requireLockTimeout(o.T, receive(o.T, patience, ended, "the migration"))
			o.until("everybody but the long job", func() bool { return o.jobs() == 2 })
			require.Empty(o, o.effects()["g"])
			o.finish()
		}},
	}, func(t *testing.T, m migration) {
		o, ids := atLongJob(t)
		m.check(o, o.migrate(m.settings, sql))
		o.requireOnce(ids)
	})
}

// requireOnce waits for an empty queue, and requires that group g has the effects of these jobs, that every job ran
// once, with one effect, and that its group's are in order.
func (o *office) requireOnce(ids []int64) {
	o.Helper()
	o.drained()
	require.Equal(o, ids, o.effects()["g"])
	require.Zero(o, o.number("SELECT count(*) FROM effects WHERE attempt <> 1"))
	require.Zero(o, o.number("SELECT count(*) - count(DISTINCT job_id) FROM effects"))
	require.Zero(o, o.number(`SELECT count(*) FROM (
		SELECT job_id < lag(job_id) OVER (PARTITION BY group_id ORDER BY n) AS back
		FROM effects) e WHERE back`))
}

// ALTER TABLE on the library's own table waits for all running jobs, and behind it waits everything: claims, and
// enqueues too, which wait for no job otherwise. Running jobs can end, for they have their locks. So whoever does that
// sets a lock_timeout, as package migrations does.
func TestMigrationOfTheJobsTable(t *testing.T) {
	t.Parallel()
	const sql = "ALTER TABLE pgfifo.jobs ADD COLUMN note text"
	t.Run("without a lock_timeout", func(t *testing.T) {
		o, ids := atLongJob(t)
		ended := o.migrate(patient, sql)
		o.migrationWaits()
		sent := make(chan error, 1)
		go func() {
			_, err := o.client.Enqueue(t.Context(), message("other", task{}))
			sent <- err
		}()
		o.until("the producer to wait", func() bool {
			return o.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO pgfifo.jobs%'`) == 1
		})
		o.finish()
		require.NoError(t, receive(o.T, patience, ended, "the migration"))
		require.NoError(t, receive(o.T, patience, sent, "the producer"))
		o.requireOnce(ids)

		// Statements that were prepared before the column was there, those for failures too.
		late := o.send("late", "a", "hopeless", "b")
		o.drained()
		require.Equal(t, []int64{late[0], late[2]}, o.effects()["late"])
		redriven, _, err := o.client.Queue(queue).Redrive(t.Context(), fifo.Redrive{Letters: fifo.Letters{All: true}})
		require.NoError(t, err)
		require.Len(t, redriven, 1)
		o.drained()
		require.Equal(t, 1, o.number("SELECT count(*) FROM pgfifo.dead_letters"))
	})
	t.Run("with a lock_timeout", func(t *testing.T) {
		o, ids := atLongJob(t)
		requireLockTimeout(t, receive(o.T, patience, o.migrate(impatient, sql), "the migration"))
		other := o.send("other", "a", "b", "c")
		o.until("the other group", func() bool { return len(o.effects()["other"]) == len(other) })
		o.finish()
		o.requireOnce(ids)
	})
}

// A handler that says SELECT * has a prepared statement on its lane whose result changes with the table: PostgreSQL
// refuses it once per lane (0A000), which is a failed attempt, and pgx prepares it anew for the next. So with many
// lanes a job may need many attempts after a migration; a handler that names its columns needs none.
func TestMigrationUnderAPreparedStatement(t *testing.T) {
	type query struct {
		columns  string
		attempts []int
	}
	pgtest.OverAll(t, map[string]query{
		"all columns": {"*", []int{1, 1, 2, 1}}, "by name": {"id, n", []int{1, 1, 1, 1}},
	}, func(t *testing.T, q query) {
		s := newSite(t)
		s.Exec("CREATE TABLE accounts (id text, n bigint)")
		w := &fifo.Worker{Client: s.client, Concurrency: 1, Retry: atOnce}
		w.Handle(queue, func(ctx context.Context, job *fifo.Job) error {
			tx, err := writeEffect(ctx, job)
			if err != nil {
				return err
			}
			rows, err := tx.Query(ctx, "SELECT "+q.columns+" FROM accounts WHERE id = $1", job.GroupID)
			if err != nil {
				return err
			}
			_, err = pgx.CollectRows(rows, pgx.RowToMap)
			return err
		})
		background(s.T, w.Run)
		s.fill(1, 2)
		s.drained()
		s.Exec("ALTER TABLE accounts ADD COLUMN note text")
		s.fill(1, 2)
		s.drained()
		require.Equal(t, q.attempts, pgtest.Column[int](s.DB, "SELECT attempt FROM effects ORDER BY n"))
	})
}
