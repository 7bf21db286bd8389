package fifo_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Jobs that a dead worker leaves do not wait for each other when they are quick, however many they are.
func TestManyLostAtOnce(t *testing.T) { overLeases(t, testManyLostAtOnce) }

func testManyLostAtOnce(t *testing.T, by lease) {
	const n = 50
	b := by.on(newBed(t))
	b.ledger.overlaps = true
	b.sendMany("q", n, 1)
	started := make(chan struct{}, n)
	ctx, die := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	w := b.worker(func(ctx context.Context, _ *fifo.Job) error {
		started <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, watchful, by.atOnce(n), func(w *fifo.Worker) { w.Name, w.DrainTimeout = "dies", -1 })
	go func() { ended <- w.Run(ctx) }()
	for range n {
		receive(t, started, "all handlers")
	}
	b.killAll("dies")
	die()
	require.NoError(t, receive(t, ended, "the end of Run"))
	begin, next := time.Now(), b.worker(nop)
	b.work(next)
	require.Greater(t, next.Stats().Lost, int64(n/2))
	require.Less(t, time.Since(begin), 10*time.Second, "each waits for the one before it, and not for its time")
}

// Jobs whose last attempt died begin one after the other, although all of them are due and all lanes are free.
func TestSuspectsBeginOneByOne(t *testing.T) {
	b := newBed(t)
	const jobs = 5
	b.sendMany("q", jobs, 1)
	b.exec(`UPDATE pgfifo.jobs SET attempts = 1, failures = '[{"attempt": 1, "kind": "lost", "error": "died"}]'`)
	var mu sync.Mutex
	running, beside := make(map[int64]time.Time), 0
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		mu.Lock()
		for _, began := range running {
			if time.Since(began) < 400*time.Millisecond { // after half a second another one may begin
				beside++
			}
		}
		running[job.ID] = time.Now()
		mu.Unlock()
		<-time.After(50 * time.Millisecond) // its work, in which another lane could begin
		mu.Lock()
		defer mu.Unlock()
		delete(running, job.ID)
		return nil
	}, func(w *fifo.Worker) { w.Concurrency = jobs }))
	require.Zero(t, beside)
}
