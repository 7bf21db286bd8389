package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/netfault"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Connections of which a balancer has lost the server's side are given up: sockets tell nothing of that.
func TestStrandedConnections(t *testing.T) { overLeases(t, testStrandedConnections) }

func testStrandedConnections(t *testing.T, by lease) {
	b := by.on(newBed(t))
	r := b.road()
	w := b.worker(nop, hasty, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = r.dial }))
		w.Concurrency = 3
	})
	b.run(w)
	b.sendMany("q", 3, 3)
	b.drained()
	ready(t, w)
	r.proxy.Drop(netfault.ToServer, true)
	r.open() // for new ones
	b.sendMany("q", 3, 3)
	b.drained()
	ready(t, w)
}

// So is one on which a handler asks for its transaction, or a job waits to be settled.
func TestStrandedBeforeATransaction(t *testing.T) { overLeases(t, testStrandedBeforeATransaction) }

func testStrandedBeforeATransaction(t *testing.T, by lease) {
	b := by.on(newBed(t))
	r := b.road()
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		_, err := job.Tx(ctx)
		return err
	}, hasty, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.DialFunc = r.dial }))
		w.Concurrency = 1
	})
	b.run(w)
	b.send("g", nil)
	b.drained()
	r.proxy.Drop(netfault.ToServer, true)
	r.open() // for new ones
	b.send("g", nil)
	b.drained()
}

// What waits for a lock is not stranded, however long that takes, also if nobody may know what the session does.
func TestLockedIsNotStranded(t *testing.T) {
	pgtest.OverEach(t, []string{"on", "off"}, testLockedIsNotStranded)
}

func testLockedIsNotStranded(t *testing.T, tracked string) {
	b := newBed(t)
	b.exec("CREATE TABLE effects (attempt integer)")
	looks := &pgtest.Tracer{Having: "pg_stat_get_activity"}
	var lanes []int
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		pid, err := backend(ctx, job)
		lanes = append(lanes, pid)
		return err
	}, oneLane, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
			cfg.ConnConfig.Tracer = looks
			cfg.ConnConfig.RuntimeParams["track_activities"] = tracked
		}))
		w.Heartbeat, w.Silence, w.PollInterval = 100*time.Millisecond, time.Second, 100*time.Millisecond
	})
	b.run(w)
	b.send("g", nil)
	b.drained()
	tx := b.beginWith("LOCK TABLE pgfifo.attempt_marks")
	b.send("g", nil)
	await(t, "a worker that is not ready: its lane waits", func() bool { return w.Ready() != nil })
	seen := looks.Queries.Load()
	await(t, "looks at what the lane waits for", func() bool { return looks.Queries.Load() > seen+3 })
	require.NoError(t, tx.Rollback(t.Context()))
	b.drained()
	ready(t, w)
	require.Equal(t, []int{lanes[0], lanes[0]}, lanes)
	require.NotZero(t, lanes[0])
}
