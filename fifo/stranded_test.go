package fifo_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A balancer loses the server's side of connections, and keeps the other in order.
type balancer struct {
	dial  pgconn.DialFunc
	mu    sync.Mutex
	conns []*behindBalancer
}

type behindBalancer struct {
	net.Conn
	mu       sync.Mutex
	stranded bool
}

func (b *balancer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := b.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &behindBalancer{Conn: conn}
	b.conns = append(b.conns, c)
	return c, nil
}

// strand loses all that there are.
func (b *balancer) strand() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		c.mu.Lock()
		c.stranded = true
		c.mu.Unlock()
	}
	b.conns = nil
}

// Write takes what is sent, and the server does not get it. It answers nothing then.
func (c *behindBalancer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stranded {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Connections that a balancer has lost are given up: sockets tell nothing of that.
func TestStrandedConnections(t *testing.T) { overLeases(t, testStrandedConnections) }

func testStrandedConnections(t *testing.T, by lease) {
	b := by.on(newBed(t))
	lossy := &balancer{}
	w := b.worker(nop, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) {
			lossy.dial = cfg.ConnConfig.DialFunc
			cfg.ConnConfig.DialFunc = lossy.connect
		}))
		w.Heartbeat, w.Silence, w.Concurrency = 100*time.Millisecond, time.Second, 3
	})
	b.run(w)
	b.sendMany("q", 3, 3)
	b.drained()
	ready(t, w)
	lossy.strand()
	b.sendMany("q", 3, 3)
	b.drained()
	ready(t, w)
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
		w.Heartbeat, w.Silence, w.PollInterval = 100*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond
	})
	b.run(w)
	b.send("g", nil)
	b.drained()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE pgfifo.attempt_marks")
	require.NoError(t, err)
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
