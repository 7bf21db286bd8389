package fifo_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestFence(t *testing.T) { overLeases(t, testFence) }

func testFence(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.send("g", 1, 2)
	b.send("h", 1)
	var mu sync.Mutex
	tokens := make(map[string][]int64)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		token, err := job.Fence(ctx)
		require.NoError(t, err)
		again, err := job.Fence(ctx)
		require.NoError(t, err)
		require.Equal(t, token, again)
		mu.Lock()
		defer mu.Unlock()
		tokens[job.GroupID] = append(tokens[job.GroupID], token)
		if job.Attempt() == 1 {
			return errors.New("once more")
		}
		return nil
	}))
	require.Len(t, tokens["g"], 4)
	require.IsIncreasing(t, tokens["g"])
	require.IsIncreasing(t, tokens["h"])
}

func TestFenceOfBatches(t *testing.T) {
	pgtest.OverAll(t, batches(3), func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		for _, group := range []string{"g", "h", "i"} {
			b.send(group, 1, 2, 3)
		}
		var mu sync.Mutex
		tokens := make(map[string][]int64)
		b.work(b.each(batch, func(ctx context.Context, job *fifo.Job) error {
			token, err := job.Fence(ctx)
			require.NoError(t, err)
			mu.Lock()
			defer mu.Unlock()
			tokens[job.GroupID] = append(tokens[job.GroupID], token)
			return nil
		}))
		for _, group := range []string{"g", "h", "i"} {
			require.Len(t, tokens[group], 3)
			require.IsNonDecreasing(t, tokens[group])
		}
	})
}

// The handler of a lost job asks too late.
func TestFenceOfALostJob(t *testing.T) { overLeases(t, testFenceOfALostJob) }

func testFenceOfALostJob(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.ledger.overlaps = true
	b.send("g", 1)
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.Attempt() > 1 {
			_, err := job.Fence(ctx)
			return err
		}
		b.exec("SELECT pg_terminate_backend($1)", b.holder("g"))
		<-ctx.Done()
		require.ErrorIs(t, context.Cause(ctx), fifo.ErrLost)
		_, err := job.Fence(context.WithoutCancel(ctx))
		require.ErrorIs(t, err, fifo.ErrLost)
		return err
	}, watchful)
	b.work(w)
	if by != bySession { // which draws tokens with its claims
		require.Equal(t, 1, b.count("fences"))
	}
}
