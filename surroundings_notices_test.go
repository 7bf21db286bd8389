//go:build unix

package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// requireNotices checks that a worker hears of jobs by notices: that one of them ran although no session of the worker
// had said anything since it was enqueued. Found by looking, none would.
func (s *site) requireNotices(producer, worker *fifo.Client) {
	s.Helper()
	const name = "hears"
	told := make(chan bool, 1)
	s.work(&fifo.Worker{Client: worker, Concurrency: 1, Name: name, PollInterval: time.Hour},
		func(ctx context.Context, job *fifo.Job) error {
			tx, err := job.PgxTx(ctx)
			if err != nil {
				return err
			}
			var silent bool
			err = tx.QueryRow(ctx, `SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database()
				AND application_name = $1 AND pid <> pg_backend_pid() AND query_start > $2`,
				name, job.EnqueuedAt).Scan(&silent)
			told <- silent
			return err
		})
	for range 10 {
		s.until("the worker to have looked for a while, and to rest", func() bool {
			return s.number(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND application_name = $1
				HAVING max(query_start) < clock_timestamp() - interval '0.5 s' AND count(*) = 3
				UNION ALL SELECT 0 LIMIT 1`, name) == 3
		})
		_, err := producer.Enqueue(s.Context(), message("notice", task{}))
		require.NoError(s, err)
		if receive(s.T, 3*patience, told, "the job") {
			return
		}
	}
	require.Fail(s, "all jobs were found by looking")
}

// Notifications reach a worker behind pgbouncer in session mode, and go out from producers behind transaction mode.
func TestNoticesThroughPoolers(t *testing.T) {
	pgtest.OverEach(t, []string{"worker, session", "producer, transaction"}, func(t *testing.T, behind string) {
		who, mode, _ := strings.Cut(behind, ", ")
		s := newSite(t)
		b := newBouncer(t, s.URL, mode, nil)
		other := clientIn(t, b.through(s.URL), pgx.QueryExecModeExec)
		if who == "worker" {
			s.requireNotices(s.client, other)
		} else {
			s.requireNotices(other, s.client)
		}
	})
}

// A mute is a site where no notice can be sent, with the pools of its producers and its workers.
type mute struct {
	*site
	producers, workers *pgxpool.Pool
}

// refused are producers and workers that may not notify.
func refused(t *testing.T) mute {
	t.Helper()
	s := newStaff(t, "")
	s.exec("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
	return mute{newSiteAt(t, s.URL), s.as(s.roles.Producer), s.as(s.roles.Worker)}
}

// congested is a server whose queue of notices is full: a session listens, and does not end its transaction.
func congested(t *testing.T) mute {
	t.Helper()
	s := newCluster(t, map[string]string{"max_notify_queue_pages": "64"}).site()
	blocker := s.Session()
	blocker.Do("LISTEN elsewhere")
	blocker.Do("BEGIN; SELECT")
	var err error
	for i := 0; err == nil; i++ {
		_, err = s.Pool.Exec(t.Context(), "SELECT pg_notify('elsewhere', $1 || repeat('x', 7000))", fmt.Sprint(i))
	}
	require.ErrorContains(t, err, "too many notifications")
	return mute{s, s.Pool, s.Pool}
}

// Where the server takes no notice, all that enqueues and commits goes on as ever, and workers find what was added.
func TestNoticesThatFail(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) { refused(t).requireNoHarm() })
	if emptyCluster(t, nil).version() >= 17 { // before, the queue takes 8 GB
		t.Run("congested", func(t *testing.T) { congested(t).requireNoHarm() })
	}
}

func (m mute) requireNoHarm() {
	m.Helper()
	client, own := fifo.Open(m.producers, nil), fifo.Open(m.workers, nil)
	m.Cleanup(func() { require.NoError(m, errors.Join(client.Close(), own.Close())) })
	done := make(chan string, 100)
	m.work(&fifo.Worker{Client: own, Concurrency: 2, MaxAttempts: 1, PollInterval: 50 * time.Millisecond},
		func(ctx context.Context, job *fifo.Job) error {
			tx, err := job.PgxTx(ctx)
			if err == nil && job.GroupID == "feeds" {
				_, err = own.EnqueuePgxTx(ctx, tx, message("fed", task{}))
			}
			if err == nil {
				done <- job.GroupID
			}
			return err
		})
	ctx, cancel := context.WithTimeout(m.Context(), patience)
	defer cancel()
	for range 10 {
		for way, enqueue := range transactions(client, m.producers) {
			require.NoError(m, enqueue(ctx, message(way, task{}), commits), way)
		}
		_, err := client.Enqueue(ctx, message("feeds", task{}))
		require.NoError(m, err)
	}
	count := make(map[string]int)
	for range 60 {
		count[receive(m.T, 3*patience, done, "a job")]++
	}
	require.Equal(m, map[string]int{"pgx": 10, "bun": 10, "InTx": 10, "sql": 10, "feeds": 10, "fed": 10}, count)
	m.drained()
	require.Zero(m, m.number("SELECT count(*) FROM pgfifo.dead_letters"))
}

// prepare prepares a transaction that has enqueued.
func prepare(ctx context.Context, client *fifo.Client, pool *pgxpool.Pool, m fifo.Message, name string) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	err = prepareTx(ctx, client, tx, m, name)
	_ = tx.Rollback(ctx) // nothing is left of it
	return err
}

func prepareTx(ctx context.Context, client *fifo.Client, tx pgx.Tx, m fifo.Message, name string) error {
	_, err := client.EnqueuePgxTx(ctx, tx, m)
	if err == nil {
		_, err = tx.Exec(ctx, "PREPARE TRANSACTION '"+name+"'")
	}
	return err
}

// A transaction that has enqueued can be prepared. Its jobs are announced when it is committed for good.
func TestPreparedEnqueue(t *testing.T) {
	c := newCluster(t, map[string]string{"max_prepared_transactions": "4"})
	ctx, s := t.Context(), c.site()
	listener := s.Session()
	listener.Do("LISTEN pgfifo")
	hear := func() string {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		n, err := listener.WaitForNotification(ctx)
		require.NoError(t, err)
		return n.Payload
	}
	cfg := s.Pool.Config()
	cfg.MaxConns, cfg.MinConns = 1, 0
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	one := fifo.Open(pool, nil)
	t.Cleanup(func() { _ = one.Close() })
	ways := map[string]func(group, name string) error{
		"pgx": func(group, name string) error {
			return prepare(ctx, s.client, s.Pool, message(group, task{}), name)
		},
		"InTx goes on": func(group, name string) error { // on the connection, which has nothing more to do with it
			err := prepare(ctx, one, pool, message(group, task{}), name)
			return errors.Join(err, one.InTx(ctx, func(pgx.Tx) error { return nil }))
		},
		"in InTx": func(group, name string) error {
			return s.client.InTx(ctx, func(tx pgx.Tx) error {
				return prepareTx(ctx, s.client, tx, message(group, task{}), name)
			})
		},
		"bun": func(group, name string) error {
			tx, err := s.client.DB().BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, err = s.client.EnqueueTx(ctx, tx, message(group, task{}))
			if err == nil {
				_, err = tx.ExecContext(ctx, "PREPARE TRANSACTION '"+name+"'")
			}
			_ = tx.Rollback()
			return err
		},
	}
	for way, prepare := range ways {
		require.NoError(t, prepare("undone", "undone"), way)
		require.NoError(t, prepare(way, "kept"), way)
		s.Exec("NOTIFY pgfifo, 'now'")
		require.Equal(t, "now", hear(), "it is not committed yet")
		s.Exec("ROLLBACK PREPARED 'undone'")
		s.Exec("COMMIT PREPARED 'kept'")
		require.Contains(t, hear(), `{"g":"`+way+`",`)
	}
	require.Equal(t, len(ways), s.jobs())

	m := message("replaced", task{})
	m.DedupID, m.Replace = "a", true
	s.enqueue(m)
	m.Payload = "newer"
	require.NoError(t, prepare(ctx, s.client, s.Pool, m, "newer"))
	free := func() (n int, newer bool) {
		require.NoError(t, s.Pool.QueryRow(ctx, `SELECT count(*), coalesce(bool_or(payload = 'newer'), false) FROM
			(SELECT payload FROM pgfifo.jobs WHERE group_id = 'replaced' FOR UPDATE SKIP LOCKED) j`).Scan(&n, &newer))
		return n, newer
	}
	n, _ := free()
	require.Zero(t, n, "no worker can have it")
	s.Exec("COMMIT PREPARED 'newer'")
	n, newer := free()
	require.Equal(t, 1, n)
	require.True(t, newer)
}
