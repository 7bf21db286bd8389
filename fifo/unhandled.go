package fifo

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// An onlooker looks at the queues that its worker does not handle. Nobody knows all that others handle: it tells what
// waits for long, once for each queue.
type onlooker struct {
	*crew
	after string // the last queue that was looked at
	told  map[string]bool
}

// look looks at the first group of each queue.
func (o *onlooker) look(ctx context.Context) error {
	client := o.worker.Client
	// A worker that freezes in here must not keep its snapshot.
	bound := strconv.FormatInt(o.set.bounds.ServerSilence.Milliseconds(), 10)
	var firsts []schedule.First
	err := pgx.BeginTxFunc(ctx, client.pool, readCommitted, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout TO "+bound)
		if err == nil {
			firsts, err = schedule.Firsts(ctx, tx, client.schema, o.after, tuning.Rows)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fifo: look for queues without a handler: %w", err)
	}
	o.after = ""
	if len(firsts) == tuning.Rows {
		o.after = firsts[tuning.Rows-1].Queue
	}
	for i := range firsts {
		o.tell(&firsts[i])
	}
	return nil
}

// tell logs that a queue's first group has waited for many intervals of the sweep, unless the worker handles the queue,
// or has told of it.
func (o *onlooker) tell(f *schedule.First) {
	_, handled := o.worker.queues[f.Queue]
	if handled || o.told[f.Queue] || f.Waits < times(tuning.Many, o.set.sweep) {
		return
	}
	o.told[f.Queue] = true
	o.log.Warn("pgfifo: a job waits in a queue that this worker does not handle; another worker may",
		"queue", f.Queue, "group", f.GroupID, "waits", f.Waits.Round(time.Millisecond), "seen", f.Seen)
}
