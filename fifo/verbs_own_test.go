package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A job runs, also for what its own handler does in the job's transaction, whose locks no statement there skips. What
// waits behind it is moved and deleted; it is not, and is done once.
func TestVerbsPassOverTheJobThatCalls(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, verb := range map[string]func(g fifo.Scope, id int64) (int, error){
		"move":   func(g fifo.Scope, _ int64) (int, error) { return g.Move(ctx, g.Group("elsewhere")) },
		"purge":  func(g fifo.Scope, _ int64) (int, error) { return g.Purge(ctx) },
		"bury":   func(g fifo.Scope, id int64) (int, error) { return 0, g.Bury(ctx, id, "of no use") },
		"delete": func(g fifo.Scope, id int64) (int, error) { return 0, g.Delete(ctx, id) },
		"retry":  func(g fifo.Scope, id int64) (int, error) { return 0, g.RetryNow(ctx, id) },
		"edit": func(g fifo.Scope, id int64) (int, error) {
			return 0, g.Edit(ctx, id, func(job *fifo.Job) error { job.Payload = nil; return nil })
		},
	} {
		for _, limit := range []int{1, 2} {
			t.Run(fmt.Sprint(name, " ", limit), func(t *testing.T) {
				b := newList(t)
				q := b.client.Queue("q")
				require.NoError(t, q.Configure(t.Context(), fifo.Settings{GroupLimit: limit}))
				ids := b.send("g", "calls", "waits")
				n := 0
				b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
					if err := note(ctx, job); err != nil || job.ID != ids[0] {
						return err
					}
					tx, err := job.PgxTx(ctx)
					if err != nil {
						return err
					}
					n, err = verb(q.InPgx(tx).Group("g"), job.ID)
					if name != "move" && name != "purge" && errors.Is(err, fifo.ErrJobHeld) {
						n, err = 1, nil
					}
					return err
				}, oneLane))
				require.Equal(t, 1, n)
				require.Empty(t, b.deadLetters())
				done := map[bool]int{true: 1, false: 2}[name == "purge"]
				require.Equal(t, done, query[int](b, "SELECT count(*) FROM list"))
				b.ledger.sent = b.ledger.sent[:1]
			})
		}
	}
}

// A job that its handler enqueues again, to replace what waits, is no such thing: it runs.
func TestReplaceTheJobThatCalls(t *testing.T) {
	b := newBed(t)
	b.send("h", make([]any, tuning.Many)...) // the first jobs of a lane are marked
	replaced := make(chan bool, 1)
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.GroupID == "h" {
			return nil
		}
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		got, err := b.client.EnqueuePgxTx(ctx, tx, newer("g", "a", "newer"))
		replaced <- err == nil && got[0].Replaced
		return err
	}, oneLane)
	r := b.run(w)
	b.drained()
	b.sendAll(newer("g", "a", "older"))
	r.finish()
	require.False(t, <-replaced)
}
