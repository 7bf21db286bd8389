package fifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Jobs that a dead worker leaves do not wait for each other when they are quick, however many they are.
func TestManyLostAtOnce(t *testing.T) {
	t.Parallel()
	const n = 50
	b := newBed(t)
	b.ledger.overlaps = true
	for i := range n {
		b.send(fmt.Sprint("g", i), nil)
	}
	started := make(chan struct{}, n)
	ctx, die := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := b.worker(func(ctx context.Context, _ *fifo.Job) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, watchful, func(w *fifo.Worker) { w.Concurrency, w.Name, w.DrainTimeout = n, "dies", -1 })
	go func() { ended <- w.Run(ctx) }()
	for range n {
		receive(t, started, "all handlers")
	}
	b.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dies'")
	die()
	require.NoError(t, receive(t, ended, "the end of Run"))
	begin, next := time.Now(), b.worker(nop)
	b.work(next)
	require.Greater(t, next.Stats().Lost, int64(n/2))
	require.Less(t, time.Since(begin), 10*time.Second, "each waits for the one before it, and not for its time")
}

// The next suspect waits for as long as the handler of the one before it has to show what it does, however long that
// was being marked.
func TestSuspectIsMarkedSlowly(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.send("a", nil)
	b.send("b", nil)
	b.exec(`UPDATE pgfifo.jobs SET attempts = 1, failures = '[{"attempt": 1, "kind": "lost"}]'`)
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE pgfifo.attempt_marks IN EXCLUSIVE MODE") // marks wait
	require.NoError(t, err)
	begun, end := make(chan time.Time, 2), make(chan struct{})
	w := b.worker(func(context.Context, *fifo.Job) error {
		begun <- time.Now()
		<-end
		return nil
	})
	r := b.run(w)
	await(t, "a mark that has waited for longer than a suspect has", func() bool {
		return query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND query_start < clock_timestamp() - interval '1 s')`)
	})
	require.NoError(t, tx.Rollback(t.Context()))
	first := receive(t, begun, "the first")
	second := receive(t, begun, "the second")
	close(end)
	b.drained()
	require.NoError(t, r.stop())
	require.GreaterOrEqual(t, second.Sub(first), 400*time.Millisecond)
}
