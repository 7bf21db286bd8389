package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
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
