package fifo_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Jobs do not wait for the application's pool, all of which is in use, although their attempts would be marked on it.
func TestMarksWithoutAPool(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	cfg, err := pgxpool.ParseConfig(b.url)
	require.NoError(t, err)
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	w := b.worker(nop, oneLane)
	w.Client = b.open(pool)
	_, err = w.Client.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: "g"}) // the schema is looked at
	require.NoError(t, err)
	b.send("g", nil)
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	begin := time.Now()
	b.work(w)
	require.Less(t, time.Since(begin), 9*time.Second, "each waits for a second, and not for the server's silence")
}
