package fifo_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// If the transaction is lost behind a job that failed, what was written before it is lost, too: those jobs are not
// done.
func TestBatchThatIsLostBehindAFailure(t *testing.T) {
	b := newList(t)
	b.ledger.unordered = true
	ids := b.send("g", nil, nil, nil)
	w := b.each(fifo.Queue{BatchJobs: 3}, func(ctx context.Context, job *fifo.Job) error {
		if err := note(ctx, job); err != nil || job.ID != ids[1] || job.Attempt() > 1 {
			return err
		}
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		// The lane's own statement is gone behind its back, and the lane is used once more only.
		if _, err := tx.Exec(ctx, "DO $$ BEGIN EXECUTE 'DEALLOCATE pgfifo_restore'; END $$"); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "SELECT set_config('client_encoding', 'LATIN1', true)"); err != nil {
			return err
		}
		return errOnPurpose
	})
	b.work(w)
	b.attempts(ids...)
	require.EqualValues(t, 3, w.Stats().Succeeded)
	require.Zero(t, w.Stats().Lost+w.Stats().Unknown+w.Stats().Buried)
}
