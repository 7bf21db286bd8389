package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Everything that a worker does, by one that may do nothing else. What is refused in the background, the log would say.
func TestWorkerRole(t *testing.T) {
	eachSchema(t, workerRole)
}

func workerRole(t *testing.T, s *staff) {
	ctx := t.Context()
	s.exec("CREATE TABLE effects (id bigint)")
	s.exec("GRANT INSERT ON effects TO " + ident(s.roles.Worker)) // what handlers write to is the application's
	pool := s.as(s.roles.Worker)
	client := s.client(pool)
	producer := s.client(s.as(s.roles.Producer))
	s.exec("INSERT INTO pgfifo.dedup_ids VALUES (sha256('old'), 1, '2000-01-01')")
	for _, p := range []string{"tx", "bun", "fence", "error", "panic", "die", "enqueue", "dead"} {
		_, err := producer.Enqueue(ctx, fifo.Message{Queue: "each", GroupID: p, Payload: p},
			fifo.Message{Queue: "each", GroupID: p})
		require.NoError(t, err)
	}
	var batch []fifo.Message
	for i := range 40 {
		batch = append(batch, fifo.Message{Queue: "slice", GroupID: fmt.Sprint(i % 4), Payload: fmt.Sprint(i)},
			fifo.Message{Queue: "many", GroupID: fmt.Sprint(i), Payload: "x"})
	}
	_, err := producer.Enqueue(ctx, batch...)
	require.NoError(t, err)

	queues, err := client.Queues(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"each", "many", "slice"}, queues)

	for _, q := range []string{"slice", "many"} {
		require.NoError(t, client.Queue(q).Configure(ctx, fifo.Settings{Limit: 2}))
	}

	var ran atomic.Int64
	w := &fifo.Worker{
		Client: client, Concurrency: 4, MaxAttempts: 3, PollInterval: 100 * time.Millisecond,
		Retry:         fifo.Backoff(time.Millisecond, time.Millisecond),
		Heartbeat:     50 * time.Millisecond,
		SweepInterval: 50 * time.Millisecond, GroupIdle: time.Microsecond,
	}
	require.NoError(t, client.Queue("each").Configure(ctx, fifo.Settings{DeadLetterRetention: time.Microsecond}))
	w.Handle("each", func(ctx context.Context, job *fifo.Job) error {
		defer ran.Add(1)
		return s.act(ctx, client, job)
	})
	w.HandleQueue("slice", fifo.Queue{
		BatchJobs: 10,
		BatchHandler: func(_ context.Context, jobs []*fifo.Job) error {
			if last := jobs[len(jobs)-1]; last.Attempts == 0 && len(jobs) > 2 {
				return fifo.BatchError{last.ID: errors.New("as told")}
			}
			return nil
		},
	})
	w.HandleQueue("many", fifo.Queue{
		BatchGroups: 10,
		Handler: func(_ context.Context, job *fifo.Job) error {
			return nil
		},
	})
	s.work(w, "everything to be done and swept", func() bool {
		return s.number(`SELECT (SELECT count(*) FROM pgfifo.jobs) + (SELECT count(*) FROM pgfifo.queue_groups)
			+ (SELECT count(*) FROM pgfifo.dead_letters) + (SELECT count(*) FROM pgfifo.fences)
			+ (SELECT count(*) FROM pgfifo.dedup_ids WHERE expires < now())`) == 0
	})
	require.GreaterOrEqual(t, ran.Load(), int64(16))
	require.Equal(t, 2, s.number("SELECT count(*) FROM effects"))
	stats := w.Stats()
	require.Equal(t, int64(1), stats.Buried, "%+v", stats)
	require.Equal(t, int64(1), stats.Lost, "%+v", stats)
	require.NotContains(t, s.logs.String(), "42501")
	require.NotContains(t, s.logs.String(), "denied")

	_, err = producer.Enqueue(ctx, message("one", task{}))
	require.NoError(t, err)
	one := &fifo.Worker{Client: client}
	one.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
	did, err := one.RunOne(ctx)
	require.NoError(t, err)
	require.True(t, did)

	require.NoError(t, client.Queue(queue).Configure(ctx, fifo.Settings{}))
	requireRefused(t, client.Queue(queue).Reconfigure(ctx, fifo.Settings{}, fifo.Settings{DedupByGroup: true}),
		"it sets them once")
	_, err = client.DeadLetters(ctx, fifo.Letters{})
	requireRefused(t, err, "payloads of dead letters")
	_, err = client.Queue(queue).Resume(ctx)
	require.Error(t, err)
}

// What no call of the library would make, and what then fails for everybody who reads it, the tables refuse.
func TestWhatNobodyCouldRead(t *testing.T) {
	s := newStaff(t, "")
	worker, producer, admin := s.as(s.roles.Worker), s.as(s.roles.Producer), s.as(s.roles.Admin)
	const large = "to_jsonb(array_fill(1e131071::numeric, ARRAY[200]))" // 26 MB of text, of 100 bytes on the disk
	const letter = "INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at) VALUES "
	for _, x := range []struct {
		pool *pgxpool.Pool
		sql  string
	}{
		{worker, "INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group) VALUES ('x', 1e18::bigint, false)"},
		{worker, "INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, dead_letter_retention) " +
			"VALUES ('x', 1, false, 1e18::bigint)"},
		{worker, "INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, group_limit) " +
			"VALUES ('x', 1, false, 101)"},
		{worker, "INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, max_running) " +
			"VALUES ('x', 1, false, 1001)"},
		{worker, "INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, lease) VALUES ('x', 1, false, 'x')"},
		{worker, "INSERT INTO pgfifo.queues (queue, dedup_window, dedup_by_group, group_limit, lease) " +
			"VALUES ('x', 1, false, 5, 'session')"},
		{worker, letter + "('q', '', 1, '', 1, now())"},
		{admin, "INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', 0, '')"},
		{admin, "INSERT INTO pgfifo.jobs (queue, group_id, id, payload) VALUES ('q', 'g', -1, '')"},
		{worker, letter + "('q', 'g', 0, '', 1, now())"},
		{worker, letter + "('q', 'g', -1, '', 1, now())"},
		{worker, letter + "('q', 'g', 1, convert_to(repeat('x', 1048577), 'UTF8'), 1, now())"},
		{producer, "INSERT INTO pgfifo.jobs (queue, group_id, payload, headers) VALUES ('q', 'g', '', " + large + ")"},
		{worker, "INSERT INTO pgfifo.jobs (queue, group_id, payload, failures) VALUES ('q', 'g', '', " + large + ")"},
		{worker, "INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at, failures) " +
			"VALUES ('q', 'g', 1, '', 1, now(), " + large + ")"},
	} {
		_, err := x.pool.Exec(t.Context(), x.sql)
		refused := (*pgconn.PgError)(nil)
		require.ErrorAs(t, err, &refused, x.sql)
		require.Equal(t, "23514", refused.Code, x.sql)
	}
}

// Who may not do what a worker does is told so at once, with the role and what it lacks.
func TestWorkerLacksRights(t *testing.T) {
	eachSchema(t, func(t *testing.T, s *staff) {
		s.exec("REVOKE UPDATE (failures) ON pgfifo.jobs FROM " + ident(s.roles.Worker))
		for role, lacks := range map[string]string{
			s.roles.Producer: "SELECT on ", s.roles.Reader: "DELETE on ", s.roles.Admin: "INSERT (queue, group_id) on ",
			s.roles.Worker: "UPDATE (run_at, attempts, failures) on ", outsider: "schema ",
		} {
			w := &fifo.Worker{Client: s.client(s.as(role))}
			w.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
			direct := &fifo.Worker{Client: w.Client, Direct: s.Pool.Config().ConnConfig} // which the owner may use
			direct.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, one := w.RunOne(ctx)
			for _, err := range []error{w.Run(ctx), one, direct.Run(ctx)} {
				require.ErrorIs(t, err, fifo.ErrRights, role)
				if role == outsider { // who has no right to the schema is not told what is in it
					requireRefused(t, err, role)
				} else {
					require.ErrorContains(t, err, login(role))
				}
				require.ErrorContains(t, err, lacks)
			}
			if role == s.roles.Worker {
				require.NotContains(t, one.Error(), ", no ", "that one only")
			}
		}
	})
}

// Where PUBLIC may call no function unless somebody grants it, roles.sql grants it to workers and to who lists jobs. A
// worker that has rights by hand is told what is missing.
func TestWorkerLacksFunctions(t *testing.T) {
	s := newStaff(t, "")
	s.exec("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA pgfifo FROM PUBLIC")
	workerRole(t, s)
	s.exec("REVOKE EXECUTE ON FUNCTION pgfifo.with_failure FROM " + ident(s.roles.Worker))
	for _, role := range []string{s.roles.Worker, s.roles.Reader, s.roles.Admin} {
		_, err := s.client(s.as(role)).Jobs(t.Context(), fifo.Page{})
		require.NoError(t, err, role)
	}
	w := &fifo.Worker{Client: s.client(s.as(s.roles.Worker))}
	w.Handle(queue, func(context.Context, *fifo.Job) error { return nil })
	_, err := w.RunOne(t.Context())
	require.ErrorIs(t, err, fifo.ErrRights)
	require.ErrorContains(t, err, "EXECUTE on pgfifo.with_failure")
}

// It does not matter how somebody has got his rights.
func TestRightsByHand(t *testing.T) {
	s := newStaff(t, "")
	hand := ident(login(pgtest.One[string](s.DB, "SELECT current_database()") + "-" + outsider))
	s.exec("GRANT USAGE ON SCHEMA pgfifo TO " + hand)
	s.exec("GRANT SELECT ON ALL TABLES IN SCHEMA pgfifo TO " + hand)
	s.exec("GRANT SELECT ON pgfifo.jobs_id_seq, pgfifo.walk_requests TO " + hand)
	s.exec("GRANT INSERT, UPDATE, DELETE ON pgfifo.jobs, pgfifo.queue_groups, pgfifo.attempt_marks, " +
		"pgfifo.dead_letters TO " + hand)
	for _, pool := range []*pgxpool.Pool{s.as(outsider), s.Pool} {
		client := s.client(s.Pool)
		_, err := client.Enqueue(t.Context(), message("g", task{}), message("h", task{}))
		require.NoError(t, err)
		w := &fifo.Worker{Client: s.client(pool)}
		w.Handle(queue, func(_ context.Context, job *fifo.Job) error {
			if job.GroupID == "h" {
				return fifo.DeadLetter(errors.New("as told"))
			}
			return nil
		})
		did, err := w.RunOne(t.Context())
		require.NoError(t, err)
		require.True(t, did)
		s.work(w, "the other one", func() bool { return s.number("SELECT count(*) FROM pgfifo.jobs") == 0 })
	}
	require.Equal(t, 2, s.number("SELECT count(*) FROM pgfifo.dead_letters"))
	require.NotContains(t, s.logs.String(), "42501")
}

// act is the worker's handler: the payload says what to do.
func (s *staff) act(ctx context.Context, client *fifo.Client, job *fifo.Job) error {
	first := job.Attempts == 0
	switch string(job.Payload) {
	case "tx":
		return execute(ctx, job, "INSERT INTO effects VALUES ($1)", job.ID)
	case "bun":
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", job.ID)
		return err
	case "fence":
		a, err := job.Fence(ctx)
		if err == nil && a <= 0 {
			err = fmt.Errorf("token %d", a)
		}
		return err
	case "error":
		if first {
			return errors.New("as told")
		}
	case "panic":
		if first {
			panic("as told")
		}
	case "die":
		if !first {
			return nil
		}
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		pid, err := backend(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := s.Pool.Exec(ctx, "SELECT pg_terminate_backend($1)", pid); err != nil {
			return err
		}
		<-ctx.Done()
	case "enqueue":
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = client.EnqueueTx(ctx, tx, fifo.Message{Queue: "each", GroupID: "spawned", DedupID: "spawned"})
		return err
	case "dead":
		return fifo.DeadLetter(errors.New("as told"))
	}
	return nil
}
