package fifo_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// While a handler has the bytes of rows, database/sql waits for its next call before it closes them. The lane does not,
// whether the handler has returned or is abandoned.
func TestBorrowedRowsLeftOpen(t *testing.T) {
	overEach(t, []string{"returned", "abandoned"}, func(t *testing.T, name string) {
		b, release := newBed(t), make(chan struct{})
		b.ledger.overlaps = true
		b.send("g", nil)
		w := b.worker(func(ctx context.Context, job *fifo.Job) error {
			tx, err := job.Tx(ctx)
			if err != nil || job.Attempt() > 1 {
				return err
			}
			rows, err := tx.Tx.QueryContext(ctx, "SELECT 'x' FROM generate_series(1, 10)")
			if err != nil {
				return err
			}
			var raw sql.RawBytes
			rows.Next()
			err = rows.Scan(&raw)
			if name == "abandoned" {
				<-release
			}
			return err
		}, oneLane, func(w *fifo.Worker) {
			w.JobTimeout, w.AbandonAfter = 100*time.Millisecond, 100*time.Millisecond
			w.Heartbeat, w.Silence, w.ServerSilence = 100*time.Millisecond, time.Second, 3500*time.Millisecond
		})
		r := b.run(w)
		b.drained()
		close(release)
		await(t, "the end of the handler", func() bool { return w.Stats().Abandoned == 0 })
		require.NoError(t, r.stop())
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded}, b.ledger.outcomes())
	})
}

// slowArgument is an argument of a statement that is not there before it is released.
type slowArgument struct{ asked, release chan struct{} }

func (a slowArgument) Value() (driver.Value, error) {
	close(a.asked)
	<-a.release
	return int64(1), nil
}

// The lane does not wait for an argument of a statement either.
func TestArgumentThatTakesItsTime(t *testing.T) {
	overEach(t, []string{"returned", "abandoned"}, func(t *testing.T, name string) {
		b, arg := newEffects(t), slowArgument{make(chan struct{}), make(chan struct{})}
		b.ledger.overlaps = true
		b.send("g", nil)
		w := b.worker(func(ctx context.Context, job *fifo.Job) error {
			tx, err := job.SQLTx(ctx)
			if err != nil || job.Attempt() > 1 {
				return err
			}
			ended := make(chan error, 1)
			go func() {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES ($1)", arg)
				ended <- err
			}()
			<-arg.asked
			if name == "abandoned" {
				return <-ended
			}
			return nil
		}, oneLane, watchful, func(w *fifo.Worker) {
			w.JobTimeout, w.AbandonAfter = 100*time.Millisecond, 100*time.Millisecond
		})
		r := b.run(w)
		release := sync.OnceFunc(func() { close(arg.release) })
		t.Cleanup(release)
		b.drained()
		release()
		await(t, "the end of the handler", func() bool { return w.Stats().Abandoned == 0 })
		require.NoError(t, r.stop())
		require.Empty(t, b.effects())
	})
}
