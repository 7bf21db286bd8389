package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// What a handler sets for its transaction does not reach what settles its job: it is done at its first attempt, once.
func TestSettingsOfTheHandler(t *testing.T) { overLeases(t, testSettingsOfTheHandler) }

func testSettingsOfTheHandler(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	tenant := fmt.Sprintf("pgfifo_tenant_%d",
		query[int](b, "SELECT oid::integer FROM pg_database WHERE datname = current_database()"))
	b.exec("CREATE ROLE " + tenant)
	t.Cleanup(func() {
		_, err := b.pool.Exec(context.Background(), "DROP OWNED BY "+tenant+"; DROP ROLE "+tenant)
		require.NoError(t, err)
	})
	b.exec("GRANT INSERT ON effects TO " + tenant)
	b.exec(`CREATE TABLE seen (id bigint);
		CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN PERFORM pg_sleep(0.2); INSERT INTO public.seen VALUES (OLD.id); RETURN OLD; END';
		CREATE TRIGGER seen BEFORE DELETE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION seen()`)
	sets := map[string]string{
		"role": "SET LOCAL ROLE " + tenant, "role by set_config": "SELECT set_config('role', '" + tenant + "', true)",
		"client_encoding":          "SET LOCAL client_encoding = 'LATIN1'",
		"search_path":              "SET LOCAL search_path = ''",
		"statement_timeout":        "SET LOCAL statement_timeout = '100ms'",
		"lock_timeout":             "SET LOCAL lock_timeout = '1ms'",
		"session_replication_role": "SET LOCAL session_replication_role = replica",
		"session_authorization":    "SET LOCAL SESSION AUTHORIZATION " + tenant,
	}
	const city = "Zürich, "
	var all []int
	ids := make(map[string][]int64)
	for name := range sets {
		ids[name] = b.send(city+name, 1, 2)
		all = append(all, int(ids[name][0]), int(ids[name][1]))
	}
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if err := exec(ctx, job, sets[strings.TrimPrefix(job.GroupID, city)]); err != nil {
			return err
		}
		return exec(ctx, job, "INSERT INTO public.effects VALUES ($1)", job.ID)
	}))
	for name := range sets {
		outcomes, errs, order := b.ledger.of(city + name)
		require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Succeeded}, outcomes, "%s: %v", name, errs)
		require.Equal(t, ids[name], order, name)
	}
	require.ElementsMatch(t, all, b.effects())
	require.Equal(t, len(all), query[int](b, "SELECT count(*) FROM seen"))
}

// A handler that only reads may say so: it is done all the same. The next job of a batch has the session as the first
// one found it.
func TestSettingsOfTheJobBefore(t *testing.T) {
	type row struct {
		jobs int
		do   fifo.Handler
	}
	readOnly := func(ctx context.Context, job *fifo.Job) error {
		return bunExec(ctx, job, "SET TRANSACTION READ ONLY")
	}
	pgtest.OverAll(t, map[string]row{
		"read only": {0, readOnly}, "read only, in a batch": {3, readOnly},
		"another path": {3, func(ctx context.Context, job *fifo.Job) error {
			if err := note(ctx, job); err != nil { // there is no such table on that path
				return err
			}
			return exec(ctx, job, "SET LOCAL search_path = nowhere")
		}},
	}, func(t *testing.T, x row) {
		b := newList(t)
		ids := b.send("g", 1, 2, 3)
		b.work(b.each(fifo.Queue{BatchJobs: x.jobs}, x.do))
		require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Succeeded, fifo.Succeeded}, b.ledger.outcomes(),
			"%v", b.ledger.errs())
		require.Equal(t, ids, b.ledger.order())
	})
}

// A trigger keeps the job's row from being deleted: nothing of the attempt is committed, and the error says so.
func TestJobThatCannotBeDeleted(t *testing.T) { overLeases(t, testJobThatCannotBeDeleted) }

func testJobThatCannotBeDeleted(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	b.exec(`CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER keep BEFORE DELETE ON pgfifo.jobs FOR EACH ROW WHEN (OLD.group_id = 'kept')
		EXECUTE FUNCTION keep()`)
	kept, next := b.send("kept", nil)[0], b.send("free", nil)[0]
	w := b.worker(func(ctx context.Context, job *fifo.Job) error { return write(ctx, job, int(job.ID)) })
	b.run(w)
	await(t, "the attempts", func() bool { return w.Stats().Troubles > 0 })
	require.Equal(t, []int{int(next)}, b.effects())
	jobs := b.jobs()
	require.Len(t, jobs, 1)
	require.Equal(t, kept, jobs[0].ID)
	require.Equal(t, 2, jobs[0].Attempts, "of 3: the third cannot be recorded, for the job cannot leave")
	require.Contains(t, jobs[0].Failures[0].Error, "the job is still there")
	b.exec("DROP TRIGGER keep ON pgfifo.jobs")
	b.drained()
}

// What a handler's failure is recorded on may break, too. It is recorded on another connection then, or else the
// attempt counts as one that died.
func TestRecordOnABrokenConnection(t *testing.T) {
	t.Parallel()
	for ended, outcomes := range map[int32][]fifo.Outcome{
		0: {fifo.Retried, fifo.Succeeded},
		1: {fifo.Retried, fifo.Succeeded},
		2: {fifo.Retried, fifo.Succeeded},
		3: {fifo.Unknown, fifo.Retried, fifo.Succeeded},
	} {
		t.Run(fmt.Sprint(ended), func(t *testing.T) {
			b := newEffects(t)
			b.ledger.overlaps = true
			var ends atomic.Int32 // sessions of the pool that end just when they are taken from it
			b.client = b.open(b.pooled(func(cfg *pgxpool.Config) {
				cfg.PrepareConn = func(_ context.Context, conn *pgx.Conn) (bool, error) {
					if ends.Add(-1) >= 0 {
						b.exec("SELECT pg_terminate_backend($1, 10000)", int(conn.PgConn().PID()))
					}
					return true, nil
				}
			}))
			b.send("g", nil)
			var attempts []int
			asked := 0
			b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
				if attempts = append(attempts, job.Attempt()); len(attempts) > 1 {
					return nil
				}
				err := exec(ctx, job, "ROLLBACK")
				ends.Store(ended)
				return errors.Join(errOnPurpose, err)
			}, oneLane, func(w *fifo.Worker) {
				w.Retry = func(*fifo.Job, error) time.Duration { asked++; return 0 }
			}))
			require.Equal(t, []int{1, 2}, attempts)
			require.Equal(t, len(outcomes)-1, asked, "once a failure: it is a hook, which may count")
			require.Equal(t, outcomes, b.ledger.outcomes())
		})
	}
}

// What is recorded on a connection of the pool is bounded as a lane is: a worker that is frozen there does not keep the
// group.
func TestRecordIsBounded(t *testing.T) {
	b := newEffects(t)
	b.exec(`CREATE TABLE bounds (v text);
		CREATE FUNCTION bound() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO public.bounds
			VALUES (current_setting(''idle_in_transaction_session_timeout'')); RETURN NEW; END';
		CREATE TRIGGER bound BEFORE UPDATE ON pgfifo.jobs FOR EACH ROW EXECUTE FUNCTION bound();
		INSERT INTO effects VALUES (1)`)
	b.send("g", nil)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error { return write(ctx, job, job.Attempt()) }))
	require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded}, b.ledger.outcomes())
	require.Equal(t, "30s", query[string](b, "SELECT v FROM bounds"))
}

// An attempt that is recorded on another connection is not counted if another worker has counted one meanwhile.
func TestRecordedOnce(t *testing.T) {
	pgtest.OverAll(t, map[string]error{
		"retried": errOnPurpose, "dead letter": fifo.DeadLetter(errOnPurpose),
	}, func(t *testing.T, failure error) {
		b := newBed(t)
		b.ledger.overlaps = true
		b.send("g", nil)
		free, release := make(chan struct{}), make(chan struct{})
		freed := sync.OnceFunc(func() { close(free) })
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			err := exec(ctx, job, "COMMIT") // which frees the group
			freed()
			<-release
			return errors.Join(failure, err)
		}, oneLane))
		receive(t, free, "the first attempt")
		b.run(b.worker(func(context.Context, *fifo.Job) error { return errOnPurpose }, oneLane,
			func(w *fifo.Worker) { w.Retry = waiting(time.Hour) }))
		await(t, "another attempt", func() bool { return len(b.ledger.outcomes()) == 1 })
		close(release)
		await(t, "the end of the first", func() bool { return len(b.ledger.outcomes()) == 2 })
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Unknown}, b.ledger.outcomes())
		job := only(t, b.jobs())
		require.Equal(t, 1, job.Attempts)
	})
}
