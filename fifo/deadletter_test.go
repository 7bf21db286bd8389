package fifo_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/groups"
)

// bury makes dead letters of all jobs that say "dead".
func (b *bed) bury() {
	b.t.Helper()
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		if string(job.Payload) == "dead" {
			return fifo.DeadLetter(errOnPurpose)
		}
		return nil
	}))
}

func letterIDs(list []fifo.DeadLetterJob) (ids []int64) {
	for _, l := range list {
		ids = append(ids, l.ID)
	}
	return ids
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var ids []int64
	for i := range 7 {
		ids = append(ids, b.send(fmt.Sprint("g", i%2), "dead")...)
	}
	b.bury()
	list := func(f fifo.Filter) []int64 {
		t.Helper()
		l, err := b.client.DeadLetters(t.Context(), f)
		require.NoError(t, err)
		return letterIDs(l)
	}
	even := []int64{ids[0], ids[2], ids[4], ids[6]}
	odd := []int64{ids[1], ids[3], ids[5]}
	all := append(append([]int64{}, even...), odd...) // by group
	require.Equal(t, all, list(fifo.Filter{}))
	require.Equal(t, all, list(fifo.Filter{Queue: "q"}))
	require.Equal(t, odd, list(fifo.Filter{Queue: "q", GroupID: "g1"}))
	require.Equal(t, odd, list(fifo.Filter{GroupID: "g1"}))
	require.Empty(t, list(fifo.Filter{Queue: "none"}))
	require.Empty(t, list(fifo.Filter{GroupID: "' OR ?0 --"}))
	var paged []int64
	f := fifo.Filter{Limit: 3}
	for {
		page, err := b.client.DeadLetters(t.Context(), f)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		require.LessOrEqual(t, len(page), 3)
		paged = append(paged, letterIDs(page)...)
		f.After = page[len(page)-1].Position()
	}
	require.Equal(t, all, paged)

	l, err := b.client.DeadLetters(t.Context(), fifo.Filter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, groups.Key{Queue: "q", GroupID: "g0"}, l[0].Group())
	require.Equal(t, "dead", string(l[0].Payload))
	require.Equal(t, 1, l[0].Attempts)
	require.InDelta(t, 0, time.Since(l[0].DiedAt).Seconds(), 60)
	require.False(t, l[0].EnqueuedAt.After(l[0].DiedAt))
}

// Redriven jobs go back to their old places: before what was enqueued later, with attempts anew and their history kept.
func TestRedrive(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.ledger.unordered = true
	ids := b.send("g", "dead", "fine", "dead", "dead")
	other := b.send("h", "dead")
	b.bury()
	key := groups.Key{Queue: "q", GroupID: "g"}
	redrive := func(key groups.Key, ids ...int64) int {
		t.Helper()
		n, err := b.client.Redrive(t.Context(), key, ids...)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, redrive(groups.Key{Queue: "none"}))
	require.Zero(t, redrive(key, other[0]), "of another group")
	require.Zero(t, redrive(key, []int64{}...), "of those chosen, which are none")

	waiting := b.send("g", "waits")
	require.Equal(t, 1, redrive(key, ids[2], ids[1]))
	jobs := b.jobs()
	require.Len(t, jobs, 2)
	require.Equal(t, ids[2], jobs[0].ID)
	require.Zero(t, jobs[0].Attempts)
	require.Len(t, jobs[0].Failures, 1)
	require.Equal(t, 2, redrive(key), "the rest of the group")
	require.Zero(t, redrive(key))
	require.Equal(t, 1, redrive(groups.Key{Queue: "q"}), "the rest of the queue")
	require.Empty(t, b.deadLetters())

	n := len(b.ledger.order())
	b.work(b.worker(nop, oneLane))
	var order []int64
	for _, job := range b.ledger.starts[n:] {
		if job.GroupID == "g" {
			order = append(order, job.ID)
			require.Equal(t, 1, job.Attempt())
		}
	}
	require.Equal(t, []int64{ids[0], ids[2], ids[3], waiting[0]}, order)
}

// The worker that has passed the job by hears of it at once.
func TestRedriveIntoBusyGroup(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.ledger.unordered = true
	dead := b.send("g", "dead")
	b.bury()
	step := make(chan struct{})
	b.run(b.worker(func(context.Context, *fifo.Job) error {
		<-step
		return nil
	}, rarePolls))
	later := b.send("g", nil, nil)
	step <- struct{}{}
	b.holder("g")
	_, err := b.client.Redrive(t.Context(), groups.Key{Queue: "q"})
	require.NoError(t, err)
	close(step)
	b.drained()
	order := b.ledger.order()[1:]
	require.ElementsMatch(t, append(later, dead...), order)
}

func TestDeleteDeadLetters(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	ids := b.send("g", "dead", "dead", "dead")
	b.send("h", "dead")
	b.bury()
	b.ledger.sent = nil // they are lost on purpose
	remove := func(key groups.Key, ids ...int64) int {
		t.Helper()
		n, err := b.client.DeleteDeadLetters(t.Context(), key, ids...)
		require.NoError(t, err)
		return n
	}
	key := groups.Key{Queue: "q", GroupID: "g"}
	require.Zero(t, remove(groups.Key{Queue: "q", GroupID: "h"}, ids...))
	require.Zero(t, remove(key, []int64{}...), "those chosen, which are none")
	require.Equal(t, 1, remove(key, ids[1]))
	require.Equal(t, 2, remove(key))
	require.Equal(t, 1, remove(groups.Key{Queue: "q"}))
	require.Empty(t, b.deadLetters())
}

func TestDeadLetterKeys(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, key := range []groups.Key{{}, {GroupID: "g"}, {Queue: "q", GroupID: "a\x00"}} {
		_, err := b.client.Redrive(t.Context(), key)
		require.ErrorIs(t, err, groups.ErrInvalidID)
		_, err = b.client.DeleteDeadLetters(t.Context(), key)
		require.ErrorIs(t, err, groups.ErrInvalidID)
	}
}

func TestFiltersAreChecked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, f := range []fifo.Filter{
		{Queue: "q\x00"},
		{Queue: "\xff"},
		{GroupID: "g\x001"},
		{Queue: strings.Repeat("x", groups.MaxIDBytes+1)},
		{After: fifo.Position{Key: groups.Key{Queue: "q", GroupID: "\x00"}}},
	} {
		_, err := b.client.Jobs(t.Context(), f)
		require.ErrorIs(t, err, groups.ErrInvalidID, "%+v", f)
		_, err = b.client.DeadLetters(t.Context(), f)
		require.ErrorIs(t, err, groups.ErrInvalidID, "%+v", f)
	}
	b.exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) " +
		"SELECT 'q', E'g\n' || i, '' FROM generate_series(1, 150) i")
	all := fifo.Filter{Limit: -1}
	for _, n := range []int{100, 50, 0} {
		page, err := b.client.Jobs(t.Context(), all)
		require.NoError(t, err)
		require.Len(t, page, n)
		if n > 0 {
			all.After = page[n-1].Position()
		}
	}
}

// The sweep drops dead letters past their retention, and rows of idle groups, and nothing else.
func TestSweep(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.send("old", "dead")
	young := b.send("young", "dead")
	b.send("idle", nil)
	b.bury()
	b.exec("UPDATE pgfifo.dead_letters SET died_at = died_at - interval '1 day' WHERE group_id = 'old'")
	b.ledger.sent = nil
	b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id) SELECT 'q', g::text FROM generate_series(1, 2500) g`)
	b.exec("UPDATE pgfifo.queue_groups SET created_at = created_at - interval '1 hour'")
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('q', 'fresh')")
	b.sendAll(fifo.Message{Queue: "q", GroupID: "1234", Delay: time.Hour}, fifo.Message{Queue: "q", GroupID: "held"})
	b.exec(`INSERT INTO pgfifo.queue_groups (queue, group_id, created_at) VALUES ('q', 'held', '2000-01-01')`)
	h := newBlocking()
	b.run(b.worker(h.handle, func(w *fifo.Worker) {
		w.Sweep = fifo.Sweep{Interval: 20 * time.Millisecond, DeadLetterRetention: time.Hour}
	}))
	receive(t, h.started, "the holder")
	await(t, "the sweep", func() bool { return b.count("queue_groups") == 3 && b.count("dead_letters") == 1 })
	require.Equal(t, young, letterIDs(b.deadLetters()))
	require.Equal(t, []string{"1234", "fresh", "held"},
		query[[]string](b, "SELECT array_agg(group_id ORDER BY group_id) FROM pgfifo.queue_groups"))
	close(h.release)
	b.send("idle", nil) // a collected row is made again
	await(t, "the idle group's job", func() bool { return b.count("jobs") == 1 })
}
