package fifo_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestSmoke(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	c := fifo.Open(pool, nil)
	defer c.Close()
	var msgs []fifo.Message
	for i := range 2000 {
		msgs = append(msgs, fifo.Message{Queue: "q", GroupID: fmt.Sprint("g", i%20), Payload: i})
	}
	_, err := c.Enqueue(t.Context(), msgs...)
	require.NoError(t, err)
	w := &fifo.Worker{Client: c}
	var mu sync.Mutex
	n := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.Handle("q", fifo.HandlerFunc(func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "SELECT ?", 1); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 2000 {
			cancel()
		}
		return nil
	}))
	start := time.Now()
	require.NoError(t, w.Run(ctx))
	t.Log(time.Since(start), w.Stats())
	jobs, err := c.Jobs(t.Context(), fifo.Filter{})
	require.NoError(t, err)
	require.Empty(t, jobs)
}
