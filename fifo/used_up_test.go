package fifo_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestUsedUpBefore(t *testing.T) {
	b := newBed(t)
	w := b.bare(nil)
	var blocking []string
	for name, batch := range oneAndBatches(3) {
		batch.Handler = func(_ context.Context, job *fifo.Job) error {
			if string(job.Payload) == "used up" && job.Attempts > 0 {
				return errOnPurpose
			}
			return nil
		}
		for _, up := range []fifo.GiveUp{fifo.ToDeadLetters, fifo.BlockGroup, fifo.Discard} {
			batch.OnGiveUp = up
			queue := fmt.Sprint(name, " ", int(up))
			w.HandleQueue(queue, batch)
			for _, payload := range []string{"fine", "used up", "behind"} {
				b.sendAll(fifo.Message{Queue: queue, GroupID: "g", Payload: payload},
					fifo.Message{Queue: queue, GroupID: "other"})
			}
			if up == fifo.BlockGroup {
				blocking = append(blocking, queue)
			}
		}
	}
	b.exec("UPDATE pgfifo.jobs SET attempts = 3 WHERE payload = 'used up'")
	r := b.run(w)
	await(t, "the blocks, and all that is not behind them", func() bool {
		s := w.Stats()
		return s.Blocked == 3 && s.Succeeded == 6*5+3*4 && s.Buried == 3 && s.Discarded == 3
	})
	for _, queue := range blocking {
		jobs := b.jobsOf(b.client.Queue(queue))
		require.Len(t, jobs, 2, queue)
		require.Equal(t, "used up", string(jobs[0].Payload))
		require.Equal(t, 3, jobs[0].Attempts)
		require.Empty(t, jobs[0].Failures)
		g := b.client.Queue(queue).Group("g")
		why, err := g.Why(t.Context())
		require.NoError(t, err)
		require.Equal(t, jobs[0].ID, why.PauseJob)
		require.Equal(t, "all its attempts are used up", why.PauseReason)
		b.unlooked(func() error { return g.RetryNow(t.Context(), jobs[0].ID) })
		b.resumes(g)
	}
	r.finish()
	require.EqualValues(t, 3, w.Stats().Blocked)
	for _, letter := range b.deadLetters() {
		require.Equal(t, 4, letter.Attempts, "it was tried once more")
	}
}

// Two jobs of a group that use up their attempts at the same moment block it one after the other, whatever lets the
// group go on.
func TestTwoBlockAtOnce(t *testing.T) {
	pgtest.OverEach(t, []string{"resume", "bury", "delete"}, func(t *testing.T, verb string) {
		b := newBed(t)
		b.groupLimit(1, 2)
		r, s := newRoster(t), newStop()
		ids, g := b.enqueue("a", 2), b.q.Group("a")
		w := b.crowd(r, fifo.Queue{OnGiveUp: fifo.BlockGroup}, s.handle, func(w *fifo.Worker) { w.MaxAttempts = 1 })
		b.run(w)
		r.reach(t, "a", ids...)
		tx := b.begin()
		require.NoError(t, pausing(g.InPgx(tx).Pause(t.Context(), "")))
		s.of(ids[0]) <- errOnPurpose
		s.of(ids[1]) <- errOnPurpose
		await(t, "both to be counted", func() bool { return w.Stats().Blocked >= 2 })
		b.resumes(g.InPgx(tx))
		require.NoError(t, tx.Commit(t.Context()))
		first := int64(0)
		await(t, "a block", func() bool { first = b.why("a").PauseJob; return first != 0 })
		if verb == "resume" {
			b.resumes(g)
		} else {
			b.unlooked(func() error { return oneJob[verb](t.Context(), g, first) })
		}
		await(t, "the other one's block", func() bool { return b.why("a").PauseJob == ids[0]+ids[1]-first })
		b.resumes(g)
		close(s.all)
		b.drained()
		if verb == "resume" {
			require.Len(t, r.starts("a"), 4, "each twice")
		} else {
			require.Len(t, r.starts("a"), 3, "one of them twice")
		}
	})
}

// A block that the server refuses is tried again, and is no lost attempt of the job, which has not begun.
func TestBlockIsRefused(t *testing.T) {
	b := newBed(t)
	id := b.send("g", nil)[0]
	b.exec("UPDATE pgfifo.jobs SET attempts = 3")
	b.exec("ALTER TABLE pgfifo.pauses ADD CONSTRAINT no CHECK (job IS NULL)")
	w := b.giving(fifo.BlockGroup, fifo.Queue{Handler: nop})
	b.run(w)
	await(t, "trouble, twice", func() bool { return w.Stats().Troubles >= 2 })
	b.exec("ALTER TABLE pgfifo.pauses DROP CONSTRAINT no")
	await(t, "the block", func() bool { return b.why("g").PauseJob == id })
	require.Zero(t, b.ledger.started())
	require.Equal(t, 3, b.jobs()[0].Attempts)
	require.Zero(t, w.Stats().Lost)
}
