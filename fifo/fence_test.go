package fifo_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Each attempt has a token, which is the batch's, and higher than those of the attempts before it in its group.
func TestFence(t *testing.T) { overLeases(t, testFence) }

func testFence(t *testing.T, by lease) {
	b := newBed(t)
	w := b.bare(nil)
	var mu sync.Mutex
	tokens := make(map[string][]int64) // by queue and group
	for kind, queue := range oneAndBatches(3) {
		by.on(b, kind)
		for _, group := range []string{"g", "h", "i"} {
			for range 3 {
				b.sendAll(fifo.Message{Queue: kind, GroupID: group})
			}
		}
		queue.Handler = func(ctx context.Context, job *fifo.Job) error {
			group := job.GroupID
			job.GroupID = "i" // what a handler writes there is of no account
			token, err := job.Fence(ctx)
			require.NoError(t, err)
			again, err := job.Fence(ctx)
			require.NoError(t, err)
			require.Equal(t, token, again)
			mu.Lock()
			defer mu.Unlock()
			tokens[kind+group] = append(tokens[kind+group], token)
			if kind == "one" && job.Attempt() == 1 {
				return errors.New("once more")
			}
			return nil
		}
		w.HandleQueue(kind, queue)
	}
	b.work(w)
	for _, group := range []string{"g", "h", "i"} {
		require.Len(t, tokens["one"+group], 6)
		require.IsIncreasing(t, tokens["one"+group])
		for _, kind := range []string{"jobs", "groups"} {
			require.Len(t, tokens[kind+group], 3)
			require.IsNonDecreasing(t, tokens[kind+group])
		}
	}
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
