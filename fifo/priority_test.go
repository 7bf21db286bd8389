package fifo_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// The database refuses what nobody may enqueue.
func TestInvalidPriority(t *testing.T) {
	b := newBed(t)
	for _, p := range []int{-1, 0, fifo.MaxPriority + 1} {
		_, err := b.pool.Exec(t.Context(),
			"INSERT INTO pgfifo.jobs (queue, group_id, payload, priority) VALUES ('q', 'g', '', $1)", p)
		require.ErrorContains(t, err, "23514")
	}
}

// backlog enqueues a job to each of n groups, from group a0000001 on.
func (b *bed) backlog(n int) {
	b.t.Helper()
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT 'q', 'a' || to_char(i, 'FM0000000'), '' FROM generate_series(1, $1::integer) i`, n)
}

// A message with a priority starts before almost all of 40,000 groups that were there before it, and whose names come
// before its own; also if nobody tells the worker of it. Without a priority it is the last one.
func TestPriorityBehindABacklog(t *testing.T) {
	const many, free, soon = 40_000, 500, 10_000 // soon: more than a queue has in line
	pgtest.OverAll(t, map[string]bool{"told": false, "found": true}, func(t *testing.T, poll bool) {
		b := newBed(t, func(c *fifo.Config) { c.PollOnly = poll })
		b.backlog(many)
		var started, first atomic.Int64
		next := make(chan struct{}) // a job that may go on: a quick worker is done before a slow server finds anything
		r := b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			n := started.Add(1)
			if job.GroupID == "z" {
				require.Equal(t, 1, job.Priority)
				first.Store(n)
			} else if n > free {
				select {
				case <-next:
				case <-ctx.Done():
				}
			}
			return nil
		}, rarePolls))
		await(t, "the worker to be at work", func() bool { return started.Load() > free })
		before := started.Load()
		b.sendAll(fifo.Message{Queue: "q", GroupID: "z", Priority: 1})
		await(t, "its start", func() bool {
			select {
			case next <- struct{}{}:
			default:
			}
			return first.Load() > 0
		})
		close(next)
		require.Less(t, first.Load()-before, int64(soon))
		require.NoError(t, r.stop())
	})
}

// A message with a priority overtakes none of its group, which is not offered before others for its sake until it is
// the head.
func TestPriorityCountsAtTheHead(t *testing.T) { overLeases(t, testPriorityCountsAtTheHead) }

func testPriorityCountsAtTheHead(t *testing.T, by lease) {
	b := by.on(newBed(t))
	const behind = 10
	b.backlog(100)
	for i := range behind {
		high := fifo.Message{Queue: "q", GroupID: fmt.Sprint("z", i), Payload: "second", Priority: 9}
		low := fifo.Message{Queue: "q", GroupID: high.GroupID, Payload: "first"}
		b.sendAll(low, high)
	}
	b.sendAll(fifo.Message{Queue: "q", GroupID: "y", Payload: "free", Priority: 1})
	b.work(b.worker(nop, oneLane))
	order := b.ledger.payloads()
	free := slices.Index(order, "free")
	require.Less(t, free, 2, "the lane takes the first group that is found")
	firsts := strings.Count(strings.Join(order[:free+1+behind], " "), "first")
	require.Less(t, firsts, behind-1, "they have their turns among the others")
	require.Equal(t, behind, strings.Count(strings.Join(order, " "), "second"))
}

// Lower ones have one turn of ten, while there are always higher ones.
func TestPriorityLeavesAPart(t *testing.T) {
	pgtest.OverAll(t, map[string]fifo.Queue{
		"one by one": {}, "batches": {BatchGroups: 20},
	}, func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		b.backlog(50)
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, priority)
			SELECT 'q', 'high' || i, '', 9 FROM generate_series(1, 300) i`)
		b.work(b.each(batch, nop))
		low := 0
		for _, job := range b.ledger.starts[:200] {
			if job.Priority == 0 {
				low++
			}
		}
		require.InDelta(t, 20, low, 6)
	})
}

// It holds in queues of all kinds: the groups with a priority go before almost all others.
func TestPriorityInQueues(t *testing.T) {
	pgtest.OverNamed(t, map[string]fifo.Queue{
		"plain":           {},
		"batches of jobs": {BatchJobs: 5}, "batches of groups": {BatchGroups: 5},
		"shares": {Share: func(id string) string { return id[:1] }}, "limited": {}, "paused": {}, "delayed": {},
		"ungrouped": {}, "failing": {Retry: waiting(time.Millisecond)},
	}, func(t *testing.T, name string, q fifo.Queue) {
		b := newBed(t)
		const some, few = 10, 5
		many := 3_000
		if name == "shares" {
			many = 20_000 // more than are in line
		}
		b.backlog(many)
		if name == "limited" {
			require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{Limit: 1}))
		}
		var started, fails, done, last atomic.Int64
		sent := make(chan struct{})
		r := b.run(b.each(q, func(ctx context.Context, job *fifo.Job) error {
			n := started.Add(1)
			switch {
			case job.Priority == 0 && n > some:
				select {
				case <-sent:
					<-time.After(2 * time.Millisecond) // its work: all of them take some seconds
				case <-ctx.Done():
				}
			case job.Priority == 0:
			case name == "failing" && fails.Add(1) <= few:
				return errBroken
			case done.Add(1) == few:
				last.Store(n)
			}
			return nil
		}, func(w *fifo.Worker) { w.PollInterval, w.MaxAttempts = 0, 0 })) // as by default
		await(t, "some", func() bool { return started.Load() > some })
		if name == "paused" {
			require.NoError(t, pausing(b.q.Group("a high").Pause(t.Context(), "")))
		}
		b.sendHigh(name, few)
		close(sent)
		if name == "paused" {
			before := started.Load()
			await(t, "others", func() bool { return started.Load() > before+some })
			b.resumes(b.q.Group("a high"))
		}
		from := started.Load()
		await(t, "the last one", func() bool { return last.Load() > 0 })
		require.NoError(t, r.stop())
		t.Logf("the last of %d was number %d", few, last.Load()-from)
		require.Less(t, last.Load()-from, int64(1000))
	})
}

// sendHigh enqueues n messages with a priority to a queue of that kind.
func (b *bed) sendHigh(kind string, n int) {
	b.t.Helper()
	high := fifo.Message{Queue: "q", GroupID: "a high", Priority: 3}
	switch kind {
	case "ungrouped":
		high.GroupID, high.Ungrouped = "", true
	case "delayed":
		high.Delay = time.Millisecond
	}
	for range n {
		b.sendAll(high)
	}
}
