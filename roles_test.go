package pgfifo_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

// eachSchema runs a test in the library's own schema, and in one whose name needs every quoting there is.
func eachSchema(t *testing.T, test func(t *testing.T, s *staff)) {
	schemas := map[string]string{"own": "", "quoted": `Odd "pgfifo_worker' $roles$ schema`}
	pgtest.OverAll(t, schemas, func(t *testing.T, schema string) {
		test(t, newStaff(t, schema))
	})
}

func TestProducerRole(t *testing.T) {
	eachSchema(t, producerRole)
}

func producerRole(t *testing.T, s *staff) {
	ctx, pool := t.Context(), s.as(s.roles.Producer)
	listener := s.Session()
	listener.Do("LISTEN " + ident(s.channel()))
	want := 0
	for _, inOrder := range []bool{false, true} {
		client := s.client(pool, func(c *fifo.Config) { c.CommitOrder = inOrder })
		one := message("g", task{})
		one.Delay, one.MaxAttempts = time.Second, 3
		ids, err := client.Enqueue(ctx, one)
		require.NoError(t, err)
		require.Len(t, ids, 1)
		ids, err = client.Enqueue(ctx, one, message("h", task{}), one)
		require.NoError(t, err)
		require.Len(t, ids, 3)
		ways := transactions(client, pool)
		for way, enqueue := range ways {
			require.NoError(t, enqueue(ctx, one, commits), way)
		}
		want += 4 + len(ways)
	}
	first := message("d", task{})
	first.DedupID, first.Priority = "a", 1
	for _, duplicate := range []bool{false, true} {
		got, err := s.client(pool).Enqueue(ctx, first)
		require.NoError(t, err)
		require.Equal(t, duplicate, got[0].Duplicate)
		require.False(t, got[0].Replaced)
	}
	first.Replace = true
	got, err := s.client(pool).Enqueue(ctx, first)
	require.NoError(t, err)
	require.True(t, got[0].Replaced)
	want++
	require.Equal(t, want, s.number("SELECT count(*) FROM pgfifo.jobs"))
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err = listener.WaitForNotification(waiting)
	require.NoError(t, err, "it tells workers")

	q := s.client(pool).Queue(queue)
	requireRefused(t, q.Configure(ctx, fifo.Settings{DedupByGroup: true}), "it may not choose settings")
	s.exec("INSERT INTO pgfifo.queues VALUES ('" + queue + "', 300000000, true)")
	require.NoError(t, q.Configure(ctx, fifo.Settings{DedupByGroup: true}), "it may look")
	require.ErrorIs(t, q.Configure(ctx, fifo.Settings{}), fifo.ErrConflict)

	_, _, err = q.Redrive(ctx, fifo.Redrive{Letters: fifo.Letters{All: true}})
	requireRefused(t, err, "through the API, too")
	require.Error(t, pausing(s.client(pool).Queue(queue).Pause(ctx, "")))
}

// What is remembered of a DedupID is the producer's own word. It gives no right to a job of a group that it does not
// know.
func TestProducerReplacesNoForeignJob(t *testing.T) {
	s := newStaff(t, "")
	ctx, pool := t.Context(), s.as(s.roles.Producer)
	ids, err := s.client(s.Pool).Enqueue(ctx, message("a group of somebody else's", task{}))
	require.NoError(t, err)
	_, err = pool.Exec(ctx, `INSERT INTO pgfifo.dedup_ids (key, expires, ungrouped)
		VALUES (sha256('x'), now() + interval '1 hour', true)`)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, "UPDATE pgfifo.dedup_ids SET job = $1", ids[0].ID)
	require.NoError(t, err)
	var replaced bool
	require.NoError(t, pool.QueryRow(ctx,
		"SELECT pgfifo.replace_waiting($1, '', sha256('x'), '', NULL, clock_timestamp())", queue).Scan(&replaced))
	require.False(t, replaced)
}

func TestReaderRole(t *testing.T) {
	eachSchema(t, readerRole)
}

func readerRole(t *testing.T, s *staff) {
	ctx, pool := t.Context(), s.as(s.roles.Reader)
	s.stock()
	holder := s.begin(s.Pool, "SELECT FROM pgfifo.jobs WHERE group_id = 'a' FOR NO KEY UPDATE")

	client := s.client(pool)
	s.look(client)
	list, err := client.Queue(queue).Group("a").Groups(ctx, fifo.Page{})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.True(t, list[0].Held)
	require.Equal(t, int(holder.Conn().PgConn().PID()), list[0].PID)
	require.Zero(t, list[0].HeldSince, "another role's session is not for everybody to see")
	require.Empty(t, list[0].ClientAddr)
	s.exec("GRANT pg_read_all_stats TO " + ident(s.roles.Reader))
	list, err = client.Queue(queue).Group("a").Groups(ctx, fifo.Page{})
	require.NoError(t, err)
	require.NotZero(t, list[0].HeldSince)
	require.NotEmpty(t, list[0].ClientAddr)

	require.NoError(t, holder.Rollback(ctx))
	jobs, err := client.Queue(queue).Group("a").Jobs(ctx, fifo.Page{})
	require.NoError(t, err)
	s.keep(jobs[0])
	list, err = client.Queue(queue).Group("a").Groups(ctx, fifo.Page{}, fifo.Held)
	require.NoError(t, err)
	require.Len(t, list, 1, "a session runs it")

	_, err = client.Queue(queue).Purge(ctx)
	require.Error(t, err)
	_, err = client.Queue(queue).DeleteDeadLetters(ctx, fifo.Letters{All: true})
	require.Error(t, err)
	_, err = client.Enqueue(ctx, message("g", task{}))
	requireRefused(t, err, "through the API, too")
}

// one is the dead letter with that id.
func one(id int64) fifo.Letters { return fifo.Letters{IDs: []int64{id}} }

// stock puts jobs, a pause and dead letters into the tables, as the owner.
func (s *staff) stock() {
	s.Helper()
	s.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', 'x'), ('q', 'a', 'y'),
		('q', 'b', 'z')`)
	s.exec(`INSERT INTO pgfifo.pauses (queue, group_id) VALUES ('q', 'b')`)
	s.exec(`INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, failures) VALUES
		('q', 'a', 1000, 'x', 1, now(),
		'[{"attempt": 1, "kind": "error", "error": "e", "worker": "w", "at": "2026-01-01T00:00:00Z"}]'),
		('q', 'b', 1001, 'y', 1, now(), NULL), ('q', 'b', 1002, 'y', 1, now(), NULL)`)
}

// look reads whatever there is to be read, and requires that it is what stock put there.
func (s *staff) look(client *fifo.Client) {
	s.Helper()
	ctx := s.Context()
	jobs, err := client.Jobs(ctx, fifo.Page{})
	require.NoError(s, err)
	require.Len(s, jobs, 3)
	require.Equal(s, "x", string(jobs[0].Payload))
	dead, err := client.Queue(queue).DeadLetters(ctx, fifo.Letters{})
	require.NoError(s, err)
	require.Len(s, dead, 3)
	list, err := client.Groups(ctx, fifo.Page{})
	require.NoError(s, err)
	require.Len(s, list, 2)
	queues, err := client.Queues(ctx)
	require.NoError(s, err)
	require.Equal(s, []string{queue}, queues)
	pauses, err := client.Pauses(ctx)
	require.NoError(s, err)
	require.Len(s, pauses, 1)
	for scope, want := range map[fifo.Scope]int{client.Queue(queue): 3, client.Queue(queue).Group("b"): 2} {
		depth, err := scope.Measure(ctx)
		require.NoError(s, err)
		require.Equal(s, want, depth.DeadLetters)
	}
}

func TestAdminRole(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *staff) {
		adminRole(t, s)
		adminOfJobs(t, s)
	})
}

// adminOfJobs does what is done to single jobs.
func adminOfJobs(t *testing.T, s *staff) {
	s.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'a', 'x'), ('q', 'a', 'y')")
	ctx, group := t.Context(), s.client(s.as(s.roles.Admin)).Queue(queue).Group("a")
	jobs, err := group.Jobs(ctx, fifo.Page{})
	require.NoError(t, err)
	s.keep(jobs[0])
	require.ErrorIs(t, group.RetryNow(ctx, jobs[0].ID), fifo.ErrJobHeld)
	taken, err := group.Terminate(ctx)
	require.NoError(t, err, "no session is ended for that")
	require.True(t, taken)
	require.NoError(t, group.RetryNow(ctx, jobs[0].ID))
	require.NoError(t, group.Edit(ctx, jobs[0].ID, func(job *fifo.Job) error {
		job.Payload = []byte("mended")
		return nil
	}))
	require.NoError(t, group.Bury(ctx, jobs[0].ID, "why"))
	require.NoError(t, group.Delete(ctx, jobs[1].ID))
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.jobs"))
}

func adminRole(t *testing.T, s *staff) {
	ctx, pool := t.Context(), s.as(s.roles.Admin)
	s.stock()
	client := s.client(pool)
	group := client.Queue(queue).Group("c")
	s.look(client)
	require.NoError(t, pausing(group.Pause(ctx, "why")))
	require.NoError(t, pausing(group.Pause(ctx, "why not")))
	require.NoError(t, pausing(client.Queue(queue).Pause(ctx, "all")))
	require.Equal(t, 3, s.number("SELECT count(*) FROM pgfifo.pauses"))
	resumed, err := group.Resume(ctx)
	require.NoError(t, err)
	require.True(t, resumed)
	require.Equal(t, 2, s.number("SELECT count(*) FROM pgfifo.pauses"))

	require.NoError(t, client.Queue(queue).Configure(ctx, fifo.Settings{}))
	require.NoError(t, client.Queue(queue).Reconfigure(ctx, fifo.Settings{}, fifo.Settings{Limit: 2}))
	require.NoError(t, client.Queue(queue).Reconfigure(ctx, fifo.Settings{Limit: 2},
		fifo.Settings{DedupByGroup: true}))

	back, _, err := client.Queue(queue).Redrive(ctx, fifo.Redrive{
		Letters: fifo.Letters{Kind: "error", Error: "e", Limit: 1},
	})
	require.NoError(t, err)
	require.Len(t, back, 1)
	require.Equal(t, 1, s.number("SELECT count(*) FROM pgfifo.jobs WHERE id = 1000"), "its old place")
	inOrder := s.client(pool, func(c *fifo.Config) { c.CommitOrder = true })
	back, _, err = inOrder.Queue(queue).Group("b").Redrive(ctx, fifo.Redrive{Letters: one(1001), ToTail: true})
	require.NoError(t, err)
	require.Len(t, back, 1)
	n, err := client.Queue(queue).DeleteDeadLetters(ctx, one(1002))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = client.Queue(queue).Purge(ctx)
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.jobs"))

	requireRefused(t, migrations.Down(ctx, pool, &migrations.Config{Schema: s.schema, DropJobs: true}),
		"the tables are not its own")
}

// keep has a session run a job, without a transaction.
func (s *staff) keep(job fifo.Job) {
	s.Helper()
	s.Session().Do("SELECT pg_advisory_lock(77)")
	s.exec("INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, lease) "+
		"VALUES ($1, 1, false, 'session') ON CONFLICT (queue) DO UPDATE SET lease = 'session'", job.Queue)
	s.exec("INSERT INTO pgfifo.queue_groups (queue, group_id, session, token, job, attempt, since) "+
		"VALUES ($1, $2, 77, 1, $3, 1, now())", job.Queue, job.GroupID, job.ID)
}

// Nothing that the roles may do lets one in who is a member of none, and rights that somebody gave by hand go.
func TestGrantTakesAway(t *testing.T) {
	s := newStaff(t, "")
	s.stock()
	s.exec("GRANT ALL ON SCHEMA pgfifo TO PUBLIC")
	s.exec("GRANT ALL ON ALL TABLES IN SCHEMA pgfifo TO PUBLIC, " + ident(s.roles.Reader))
	s.exec("GRANT UPDATE (payload) ON pgfifo.jobs TO " + ident(s.roles.Producer))
	s.exec("GRANT ALL ON ALL SEQUENCES IN SCHEMA pgfifo TO PUBLIC")
	someone, producer := s.as(outsider), s.as(s.roles.Producer)
	statements := []string{"DELETE FROM pgfifo.jobs WHERE id = 0", "SELECT nextval('pgfifo.jobs_id_seq')"}
	for _, sql := range statements {
		_, err := someone.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	_, err := producer.Exec(t.Context(), "UPDATE pgfifo.jobs SET payload = ''")
	require.NoError(t, err)

	// Beside a running job, which holds nothing up.
	holder := s.begin(s.Pool, "UPDATE pgfifo.jobs SET attempts = 1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 2 {
		require.NoError(t, migrations.Grant(ctx, s.Pool, s.roles, nil))
	}
	require.NoError(t, holder.Rollback(ctx))

	for _, sql := range slices.Concat(statements, []string{"SELECT pgfifo.schema_version()"}) {
		_, err := someone.Exec(t.Context(), sql)
		requireRefused(t, err, sql)
	}
	_, err = producer.Exec(t.Context(), "UPDATE pgfifo.jobs SET payload = ''")
	requireRefused(t, err, "")
	_, err = s.client(producer).Enqueue(t.Context(), message("g", task{}))
	require.NoError(t, err)
}
