package fifo_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A job that has failed, was sent with a delay, or may be tried only once, has no company.
func TestWhoRunsAlone(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		message fifo.Message
		before  string
	}{
		"tried once": {fifo.Message{MaxAttempts: 1}, "SELECT 1"},
		"delayed": {
			fifo.Message{Delay: time.Hour},
			"UPDATE pgfifo.jobs SET run_at = statement_timestamp() WHERE run_at IS NOT NULL",
		},
		"failed": {fifo.Message{Payload: "odd"}, "UPDATE pgfifo.jobs SET attempts = 1 WHERE payload = 'odd'"},
	} {
		for _, batch := range []fifo.Queue{{BatchJobs: 5}, {BatchGroups: 5}} {
			t.Run(fmt.Sprint(name, " ", size(batch)), func(t *testing.T) {
				b := newList(t)
				m := x.message
				m.Queue, m.GroupID = "q", "g"
				msgs := []fifo.Message{
					{Queue: "q", GroupID: "g"},
					{Queue: "q", GroupID: "g"},
					m,
					{Queue: "q", GroupID: "g"},
					{Queue: "q", GroupID: "g"},
				}
				if batch.BatchGroups > 1 {
					for i := range msgs {
						msgs[i].GroupID = fmt.Sprint(i)
					}
				}
				ids := b.sendAll(msgs...)
				b.exec(x.before)
				b.work(b.slice(batch, noteAll))
				list := b.batches()
				if batch.BatchJobs > 1 {
					require.Equal(t, [][]int64{ids[:2], ids[2:3], ids[3:]}, list)
					return
				}
				require.Contains(t, list, ids[2:3])
				require.LessOrEqual(t, len(list), 3, "the others are not separated by it: %v", list)
			})
		}
	}
}

// Once a batch was undone its jobs run one at a time, up to the last of them; then there are batches again.
func TestOneAtATimeAfterAFailure(t *testing.T) {
	type row struct {
		batch  fifo.Queue
		spoilt string
		want   []int
	}
	overAll(t, map[string]row{
		"error":  {fifo.Queue{BatchJobs: 4}, "SELECT 1/0", []int{4, 1, 1, 1, 1, 1, 4}},
		"commit": {fifo.Queue{BatchJobs: 4}, "INSERT INTO effects VALUES (1), (1)", []int{4, 1, 1, 1, 1, 1, 4}},
	}, func(t *testing.T, x row) {
		b := newList(t)
		b.exec("CREATE TABLE effects (v int, UNIQUE (v) DEFERRABLE INITIALLY DEFERRED)")
		ids := b.send("g", make([]any, 8)...)
		var sizes []int
		b.work(b.slice(x.batch, func(ctx context.Context, jobs []*fifo.Job) error {
			sizes = append(sizes, len(jobs))
			for _, job := range jobs {
				if job.ID == ids[1] && job.Attempt() == 1 {
					return execAnyway(ctx, job, x.spoilt)
				}
			}
			return noteAll(ctx, jobs)
		}))
		require.Equal(t, x.want, sizes)
		require.Equal(t, []int{1, 2, 1, 1, 1, 1, 1, 1}, b.attempts(ids...))
	})
}

// RunOne works one job, whatever the batch.
func TestRunOneTakesNoBatch(t *testing.T) {
	t.Parallel()
	for _, batch := range []fifo.Queue{{BatchJobs: 10}, {BatchGroups: 10}} {
		t.Run(size(batch), func(t *testing.T) {
			b := newList(t)
			ids := append(b.send("g", nil, nil), b.send("h", nil)...)
			w := b.slice(batch, noteAll)
			for i := range ids {
				require.True(t, b.runsOne(w))
				require.Equal(t, i+1, query[int](b, "SELECT count(*) FROM list"))
				require.Equal(t, 2-i, b.count("jobs"))
			}
			require.False(t, b.runsOne(w))
		})
	}
}
