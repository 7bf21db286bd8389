package fifo_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// When the handler of a suspect begins, its session has the group of no other one, however many wait: a kill takes none
// along.
func TestSuspectsAreNotClaimedMeanwhile(t *testing.T) {
	pgtest.OverAll(t, oneAndBatches(4), func(t *testing.T, queue fifo.Queue) {
		const jobs = 60
		b := bySession.on(newBed(t))
		b.sendMany("q", jobs, 2)
		b.exec(`UPDATE pgfifo.jobs SET attempts = 2, failures = '[{"kind": "lost"}, {"kind": "lost"}]'
			WHERE id IN (SELECT min(id) FROM pgfifo.jobs GROUP BY group_id)`)
		var mu sync.Mutex
		most := 0
		b.work(b.each(queue, func(ctx context.Context, job *fifo.Job) error {
			if job.Attempts == 0 {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			began := time.Now()
			n := query[int](b, `SELECT count(*) FROM pgfifo.queue_groups g WHERE session IS NOT NULL
				AND attempt > 1`)
			if time.Since(began) < 100*time.Millisecond { // beside one that takes half a second the next one begins
				most = max(most, n)
			}
			return nil
		}, bySession.atOnce(jobs)))
		require.Equal(t, 1, most)
	})
}
