package fifo_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// runsOne reports whether RunOne has found a job.
func (b *bed) runsOne(w *fifo.Worker) bool {
	b.t.Helper()
	ran, err := w.RunOne(b.t.Context())
	require.NoError(b.t, err)
	return ran
}

func TestRunOne(t *testing.T) {
	b := newBed(t)
	w := b.worker(failingOn("bad", errOnPurpose))
	one := func() bool { return b.runsOne(w) }
	require.False(t, one(), "there is none")
	b.sendAll(fifo.Message{Queue: "other", GroupID: "g"}, fifo.Message{Queue: "q", GroupID: "later", Delay: time.Hour})
	require.False(t, one(), "none that may run")
	ids := b.send("g", "first", "bad", "last")
	require.True(t, one())
	require.Equal(t, ids[:1], b.ledger.order())
	for range 3 { // the failure is recorded, and no error of RunOne
		require.True(t, one())
	}
	require.Len(t, b.deadLetters(), 1)
	require.True(t, one())
	require.False(t, one())
	require.Equal(t, []int64{ids[0], ids[1], ids[1], ids[1], ids[2]}, b.ledger.order())
	require.Zero(t, query[int](b, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'pgfifo %' AND state <> 'idle'`))
}

// It passes over groups that others hold.
func TestRunOneFindsAFreeGroup(t *testing.T) {
	b := newBed(t)
	h := newBlocking()
	held := b.send("held", nil, nil)
	b.run(b.worker(h.handle, oneLane))
	receive(t, h.started, "the holder")
	w := b.worker(nop)
	require.False(t, b.runsOne(w))
	free := b.send("zfree", nil)
	require.True(t, b.runsOne(w))
	require.Equal(t, []int64{held[0], free[0]}, b.ledger.order())
	close(h.release)
}

// It works a job whose last attempt was lost at once, although the one before has not ended well.
func TestRunOneOfALostJob(t *testing.T) {
	b := newBed(t)
	b.ledger.overlaps, b.ledger.unordered = true, true
	id := b.send("g", nil)[0]
	w := b.worker(func(ctx context.Context, _ *fifo.Job) error { // until it is gone, the group is held
		return b.kill(context.WithoutCancel(ctx), b.holder("g"))
	}, func(w *fifo.Worker) { w.Retry = func(*fifo.Job, error) time.Duration { return 0 } })
	for ran := true; ran; {
		ran, _ = w.RunOne(t.Context()) // the error, if any, is that of its connection
	}
	require.Equal(t, []int64{id, id, id}, b.ledger.order())
	require.Len(t, b.deadLetters(), 1)
}

// When its context ends the job is given back.
func TestRunOneGivesBack(t *testing.T) {
	b := newBed(t)
	h := newBlocking()
	ids := b.send("g", nil)
	ctx, cancel := context.WithCancel(t.Context())
	result := beside(func() error {
		_, err := b.worker(h.handle).RunOne(ctx)
		return err
	})
	receive(t, h.started, "the handler")
	cancel()
	require.NoError(t, receive(t, result, "the end of RunOne"))
	require.Equal(t, fifo.ErrShutdown, receive(t, h.causes, "the cause"))
	require.Equal(t, []fifo.Outcome{fifo.Returned}, b.ledger.outcomes())
	require.Zero(t, b.jobs()[0].Attempts)
	require.True(t, b.runsOne(b.worker(nop)))
	require.Equal(t, []int64{ids[0], ids[0]}, b.ledger.order())
	require.ErrorIs(t, second(b.worker(nop).RunOne(ctx)), context.Canceled)
}
