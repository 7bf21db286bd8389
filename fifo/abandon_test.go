package fifo_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// leftUses are what handlers have begun with the transaction when they are abandoned, and how they go on.
var leftUses = map[string]func(ctx context.Context, job *fifo.Job) func() error{
	"nothing": func(ctx context.Context, job *fifo.Job) func() error {
		return func() error { return second(job.Fence(ctx)) }
	},
	"pgx": func(ctx context.Context, job *fifo.Job) func() error {
		tx, _ := job.PgxTx(ctx)
		_, _ = tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
		return func() error { return second(tx.Exec(context.Background(), "INSERT INTO effects VALUES (2)")) }
	},
	"raw": func(ctx context.Context, job *fifo.Job) func() error {
		tx, _ := job.PgxTx(ctx)
		conn := tx.Conn()
		return func() error { return second(conn.Exec(context.Background(), "INSERT INTO effects VALUES (2)")) }
	},
	"bun": func(ctx context.Context, job *fifo.Job) func() error {
		tx, _ := job.Tx(ctx)
		_, _ = tx.Exec("INSERT INTO effects VALUES (1)")
		return func() error { return second(tx.Exec("INSERT INTO effects VALUES (2)")) }
	},
	"pgx, in a statement that nobody cancels": func(ctx context.Context, job *fifo.Job) func() error {
		err := exec(ctx, job, "SELECT pg_sleep(600)")
		return func() error { return err }
	},
	"bun, in a statement that nobody cancels": func(ctx context.Context, job *fifo.Job) func() error {
		err := bunExec(ctx, job, "SELECT pg_sleep(600)")
		return func() error { return err }
	},
	"rows": func(ctx context.Context, job *fifo.Job) func() error {
		tx, _ := job.Tx(ctx)
		rows, _ := tx.Query("SELECT generate_series(1, 1000000)")
		return func() error {
			for rows.Next() {
			}
			return errors.Join(rows.Err(), rows.Close())
		}
	},
}

// A worker with AbandonAfter goes on without the handler: its group is free, and its lane. What the handler still does
// with its transaction fails, and nothing of it stays.
func TestAbandon(t *testing.T) { overLeases(t, testAbandon) }

func testAbandon(t *testing.T, by lease) {
	b, log, _ := watched(t)
	by.on(b)
	b.ledger.overlaps = true
	b.exec("CREATE TABLE effects (id int)")
	h, errs := newStubborn(), make(chan error, 4*len(leftUses))
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) != "stuck" || job.Attempt() > 1 {
			return nil
		}
		ctx = context.WithoutCancel(ctx)
		later := leftUses[job.GroupID](ctx, job)
		_ = h.handle(ctx, job)
		errs <- later()
		errs <- second(job.Tx(ctx))
		errs <- second(job.PgxTx(ctx))
		errs <- second(job.Fence(ctx))
		return nil
	}, oneLane, func(w *fifo.Worker) {
		w.JobTimeout, w.AbandonAfter = 500*time.Millisecond, 20*time.Millisecond
	})
	r := b.run(w)
	for name := range leftUses {
		ids := b.send(name, "stuck", "next")
		receive(t, h.started, "the handler")
		other := b.send("other "+name, nil)
		b.drained() // beside it, on its lane
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded, fifo.Succeeded}, b.ends(name, 3), name)
		_, why, order := b.ledger.of(name)
		require.ErrorIs(t, why[0], fifo.ErrJobTimeout)
		require.ErrorIs(t, why[0], fifo.ErrAbandoned)
		require.Equal(t, []int64{ids[0], ids[0], ids[1]}, order, name)
		require.Contains(t, b.ledger.order(), other[0])
		require.Equal(t, 1, log.count(fmt.Sprintf("pgfifo: handler abandoned; its connection is closed "+
			"queue=q group=%s job=%d attempt=1 jobs=1 cause=fifo: job timeout", name, ids[0])), "%q", log.lines)
	}
	require.Equal(t, len(leftUses), w.Stats().Abandoned)
	require.Zero(t, w.Stats().Running)
	require.ErrorContains(t, r.stop(), "fifo: drain timeout: handlers abandoned: ")
	close(h.release)
	for range cap(errs) {
		require.Error(t, receive(t, errs, "what became of its use of the transaction"))
	}
	await(t, "the end of the handlers", func() bool { return w.Stats().Abandoned == 0 })
	require.EqualValues(t, len(leftUses), w.Stats().TimesAbandoned)
	require.Zero(t, query[int](b, "SELECT count(*) FROM effects"))
}

// A hook that is told of an overdue handler, and blocks, does not keep the handler from being abandoned.
func TestAbandonBesideAHook(t *testing.T) {
	told, release := make(chan struct{}, 100), make(chan struct{})
	b := newBed(t, hooked(fifo.Hooks{Overdue: func(context.Context, *fifo.Job, time.Duration, error) {
		told <- struct{}{}
		<-release
	}}))
	b.ledger.overlaps = true
	b.send("g", nil)
	h := newStubborn()
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.Attempt() > 1 {
			return nil
		}
		return h.handle(ctx, job)
	}, oneLane, func(w *fifo.Worker) {
		w.JobTimeout, w.AbandonAfter = 100*time.Millisecond, 2*time.Second
	})
	b.run(w)
	receive(t, told, "the hook")
	b.drained()
	require.EqualValues(t, 1, w.Stats().TimesAbandoned)
	close(release)
	close(h.release)
	await(t, "the end of the handler", func() bool { return w.Stats().Abandoned == 0 })
}

// A batch whose handler is abandoned runs again one by one, and then the one that is to blame is charged.
func TestAbandonABatch(t *testing.T) {
	pgtest.OverAll(t, ways, func(t *testing.T, work way) {
		b := newBed(t)
		b.ledger.overlaps, b.ledger.unordered = true, true
		h := newStubborn()
		defer close(h.release)
		ids := b.send("g", nil, nil, nil)
		r := b.run(work(b, fifo.Queue{BatchJobs: 3}, func(ctx context.Context, job *fifo.Job) error {
			if job.ID == ids[1] {
				return h.handle(ctx, job)
			}
			return nil
		}, func(w *fifo.Worker) {
			w.MaxAttempts, w.JobTimeout, w.AbandonAfter = 2, 500*time.Millisecond, 20*time.Millisecond
		}))
		b.drained()
		letter := only(t, b.deadLetters())
		require.Equal(t, ids[1], letter.ID)
		require.Len(t, letter.Failures, 2)
		for _, f := range letter.Failures {
			require.Equal(t, fifo.KindTimeout, f.Kind)
		}
		require.ErrorIs(t, r.stop(), fifo.ErrDrainTimeout)
	})
}

// RunOne gives up as Run does.
func TestRunOneAbandons(t *testing.T) {
	b := newBed(t)
	h := newStubborn()
	defer close(h.release)
	id := b.send("g", nil)[0]
	ctx, cancel := context.WithCancel(t.Context())
	ran := false
	ended := beside(func() (err error) {
		ran, err = b.worker(h.handle).RunOne(ctx)
		return err
	})
	receive(t, h.started, "the handler")
	cancel()
	err := receive(t, ended, "RunOne")
	require.True(t, ran)
	require.EqualError(t, err, fmt.Sprintf("fifo: drain timeout: handlers abandoned: q/g job %d", id))
}

// While a handler has the bytes of rows, database/sql waits for its next call before it closes them; and it waits for
// an argument of a statement that takes its time. The lane does not, whether the handler has returned or is abandoned.
func TestLaneWaitsForNothingOfDatabaseSQL(t *testing.T) {
	b, release := newEffects(t), make(chan struct{})
	b.ledger.overlaps = true
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.SQLTx(ctx)
		if err != nil || job.Attempt() > 1 {
			return err
		}
		abandoned := strings.HasSuffix(job.GroupID, "abandoned")
		if strings.HasPrefix(job.GroupID, "rows") {
			rows, err := tx.QueryContext(ctx, "SELECT 'x' FROM generate_series(1, 10)")
			if err != nil {
				return err
			}
			var raw sql.RawBytes
			rows.Next()
			err = rows.Scan(&raw)
			if abandoned {
				<-release
			}
			return err
		}
		arg := slowArgument{make(chan struct{}), release}
		ended := beside(func() error { return second(tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1)", arg)) })
		<-arg.asked
		if abandoned {
			return <-ended
		}
		return nil
	}, oneLane, func(w *fifo.Worker) {
		w.JobTimeout, w.AbandonAfter = 100*time.Millisecond, 100*time.Millisecond
		w.Heartbeat, w.Silence, w.ServerSilence = 100*time.Millisecond, time.Second, 3500*time.Millisecond
	})
	r := b.run(w)
	free := sync.OnceFunc(func() { close(release) })
	t.Cleanup(free)
	for _, group := range []string{"rows, returned", "rows, abandoned", "argument, returned", "argument, abandoned"} {
		b.send(group, nil)
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded}, b.ends(group, 2), group)
	}
	free()
	await(t, "the end of the handlers", func() bool { return w.Stats().Abandoned == 0 })
	require.NoError(t, r.stop())
	require.Empty(t, b.effects())
}

// slowArgument is an argument of a statement that is not there before it is released.
type slowArgument struct{ asked, release chan struct{} }

func (a slowArgument) Value() (driver.Value, error) {
	close(a.asked)
	<-a.release
	return int64(1), nil
}
