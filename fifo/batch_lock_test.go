package fifo_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// Who locks a whole table, to index it say, is waited for when jobs of a batch are settled, as when one is.
func TestBatchWaitsForALockOnATable(t *testing.T) {
	t.Parallel()
	for table, kind := range map[string]struct {
		batch fifo.Queue
		msg   fifo.Message
	}{
		"fences":        {fifo.Queue{BatchGroups: 5}, fifo.Message{Queue: "q", Ungrouped: true}},
		"jobs":          {fifo.Queue{BatchJobs: 5}, fifo.Message{Queue: "q", GroupID: "g"}},
		"attempt_marks": {fifo.Queue{BatchJobs: 5}, fifo.Message{Queue: "q", GroupID: "g"}},
	} {
		t.Run(table, func(t *testing.T) {
			b := newBed(t)
			b.sendAll(slices.Repeat([]fifo.Message{kind.msg}, 40)...)
			runs, many, locked := 0, make(chan struct{}, 40), make(chan struct{})
			r := b.run(b.slice(kind.batch, func(_ context.Context, jobs []*fifo.Job) error {
				runs += len(jobs)
				if len(jobs) > 1 {
					many <- struct{}{}
					<-locked
				}
				return nil
			}))
			receive(t, many, "a batch")
			lock := b.begin()
			_, err := lock.Exec(t.Context(), "LOCK TABLE pgfifo."+table+" IN SHARE MODE")
			require.NoError(t, err)
			close(locked)
			await(t, "the settling to wait for long", func() bool {
				return query[bool](b, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "+
					"AND datname = current_database() AND query_start < clock_timestamp() - interval '1.5 s')")
			})
			require.NoError(t, lock.Rollback(t.Context()))
			r.finish()
			require.Equal(t, 40, runs)
		})
	}
}
