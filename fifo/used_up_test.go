package fifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A job whose attempts are used up when its turn comes, because MaxAttempts were more before, say, is not tried where
// jobs block their groups, until it has attempts again. Elsewhere it is tried once more.
func TestUsedUpBefore(t *testing.T) {
	t.Parallel()
	for name, batch := range oneAndBatches(3) {
		for _, up := range []fifo.GiveUp{fifo.ToDeadLetters, fifo.BlockGroup, fifo.Discard} {
			t.Run(fmt.Sprint(name, " ", up), func(t *testing.T) {
				b := newBed(t)
				ids, others := b.send("g", "fine", "used up", "behind"), b.send("other", "fine", "fine")
				b.exec("UPDATE pgfifo.jobs SET attempts = 3 WHERE id = $1", ids[1])
				batch.Handler = func(_ context.Context, job *fifo.Job) error {
					if string(job.Payload) == "used up" && job.Attempts > 0 {
						return errOnPurpose
					}
					return nil
				}
				w := b.giving(up, batch, oneLane)
				if up != fifo.BlockGroup {
					b.work(w)
					require.Len(t, b.ledger.starts, 5)
					require.EqualValues(t, 1, w.Stats().Buried+w.Stats().Discarded)
					return
				}
				r := b.run(w)
				await(t, "the block", func() bool { return w.Stats().Blocked == 1 && w.Stats().Succeeded == 3 })
				require.ElementsMatch(t, append(others, ids[0]), b.ledger.order())
				job := b.jobs()[0]
				require.Equal(t, ids[1], job.ID)
				require.Equal(t, 3, job.Attempts)
				require.Empty(t, job.Failures)
				pauses := b.pauses()
				require.Equal(t, ids[1], pauses[0].Job)
				require.Equal(t, fmt.Sprintf("job %d has used up its attempts", ids[1]), pauses[0].Reason)
				g := b.q.Group("g")
				require.NoError(t, g.RetryNow(t.Context(), ids[1]))
				b.resumes(g)
				r.finish()
				require.EqualValues(t, 1, w.Stats().Blocked)
			})
		}
	}
}

// Two jobs of a group that use up their attempts at the same moment block it one after the other, whatever lets the
// group go on.
func TestTwoBlockAtOnce(t *testing.T) {
	pgtest.OverNamed(t, map[string]func(ctx context.Context, g fifo.Scope, job int64) error{
		"resume": func(ctx context.Context, g fifo.Scope, _ int64) error { _, err := g.Resume(ctx); return err },
		"bury":   func(ctx context.Context, g fifo.Scope, job int64) error { return g.Bury(ctx, job, "") },
		"delete": func(ctx context.Context, g fifo.Scope, job int64) error { return g.Delete(ctx, job) },
	}, func(t *testing.T, name string, goOn func(ctx context.Context, g fifo.Scope, job int64) error) {
		b := newBed(t)
		b.groupLimit(1, 2)
		r, s := newRoster(t), newStop()
		ids, g := b.enqueue("a", 2), b.q.Group("a")
		w := &fifo.Worker{Client: b.client, MaxAttempts: 1, PollInterval: 100 * time.Millisecond}
		w.HandleQueue("q", fifo.Queue{
			OnGiveUp: fifo.BlockGroup,
			Handler:  func(ctx context.Context, job *fifo.Job) error { return r.handle(b, ctx, job, s.handle) },
		})
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
		require.NoError(t, goOn(t.Context(), g, first))
		await(t, "the other one's block", func() bool { return b.why("a").PauseJob == ids[0]+ids[1]-first })
		b.resumes(g)
		close(s.all)
		b.drained()
		if name == "resume" {
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
