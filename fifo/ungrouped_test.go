package fifo_test

import (
	"context"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// ownAlike is the id of a group that a program has named, and that looks as if it was drawn for an Ungrouped message.
const ownAlike = "~06JH7K8ABCDEFGHIJKLMNOPQ"

// Messages without a group wait for nobody: not for one that runs, fails, waits or is delayed. Each has a group of its
// own, whose row goes with the job.
func TestUngrouped(t *testing.T) { overLeases(t, testUngrouped) }

func testUngrouped(t *testing.T, by lease) {
	b := by.on(newBed(t))
	stuck, mail := fifo.Message{Queue: "q", Ungrouped: true, Payload: "stuck", MaxAttempts: 1},
		fifo.Message{Queue: "q", Ungrouped: true, Payload: "mail"}
	b.sendAll(stuck, mail, fifo.Message{Queue: "q", Ungrouped: true, Payload: "later", Delay: fifo.MaxDelay})
	b.sendAll(mail) // by itself: another statement
	p := producers["pgx.Tx"](b)
	p.send(mail, fifo.Message{Queue: "q", GroupID: "g", Payload: "mail"})
	require.NoError(t, p.commit())
	p = producers["*sql.Tx"](b)
	p.send(mail, mail)
	require.NoError(t, p.commit())

	own := regexp.MustCompile(`^~[0-9A-V]{24}$`)
	all, others := make(map[string]bool), make(chan struct{}, 10)
	for _, job := range b.jobs() {
		require.Regexp(t, `^g$|`+own.String(), job.GroupID)
		all[job.GroupID] = true
	}
	require.Len(t, all, 8, "no two have a group in common")

	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) != "stuck" {
			_, err := job.Fence(ctx)
			others <- struct{}{}
			return err
		}
		for range 6 { // while it runs
			<-others
		}
		return errOnPurpose
	}, func(w *fifo.Worker) { w.Concurrency = 7 })
	r := b.run(w)
	await(t, "all but the delayed one", func() bool { return b.count("jobs") == 1 })
	require.Equal(t, "later", string(b.jobs()[0].Payload))

	dead := only(t, b.deadLetters())
	require.Regexp(t, own, dead.GroupID)
	require.Len(t, b.redrive(b.q, again(dead.ID)), 1)
	for range 6 {
		others <- struct{}{}
	}
	await(t, "its second death", func() bool { return b.count("dead_letters") == 1 })
	require.NoError(t, r.stop())
	require.Equal(t, []string{"g"}, query[[]string](b, `SELECT array_agg(group_id::text) FROM pgfifo.queue_groups
		WHERE group_id <> $1 AND NOT EXISTS (SELECT FROM pgfifo.jobs j WHERE j.group_id = queue_groups.group_id)`,
		dead.GroupID))
	if by != bySession { // which draws tokens with its claims
		require.Equal(t, 1, b.count("fences"), "that of the group, which is kept")
	}
}

// What a handler enqueues to the group that its job was given runs behind the job.
func TestUngroupedGetsCompany(t *testing.T) {
	places := map[string]bool{"in the job's transaction": true, "beside it": false}
	pgtest.OverAll(t, places, func(t *testing.T, inside bool) {
		b := newBed(t)
		first := b.sendAll(fifo.Message{Queue: "q", Ungrouped: true, Payload: "first"})
		b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
			if string(job.Payload) != "first" {
				return nil
			}
			next := fifo.Message{Queue: "q", GroupID: job.GroupID, Payload: "second"}
			if !inside {
				return second(b.client.Enqueue(ctx, next))
			}
			return b.enqueueIn(ctx, job, next)
		}))
		order := b.ledger.order()
		require.Len(t, order, 2)
		require.Equal(t, first[0], order[0])
	})
}

// A batch of groups takes many, of which one that fails stops no other.
func TestUngroupedInBatches(t *testing.T) { overLeases(t, testUngroupedInBatches) }

func testUngroupedInBatches(t *testing.T, by lease) {
	b := by.on(newBed(t))
	msgs := slices.Repeat([]fifo.Message{{Queue: "q", Ungrouped: true}}, 40)
	msgs[3].Payload, msgs[3].MaxAttempts = "bad", 1
	ids := b.sendAll(msgs...)
	most := 0
	b.work(b.slice(fifo.Queue{BatchGroups: 10}, func(_ context.Context, jobs []*fifo.Job) error {
		failed := make(fifo.BatchError)
		for _, job := range jobs {
			if string(job.Payload) == "bad" {
				failed[job.ID] = errOnPurpose
			}
		}
		b.ledger.mu.Lock()
		defer b.ledger.mu.Unlock()
		most = max(most, len(jobs))
		return failed
	}, func(w *fifo.Worker) { w.Concurrency = 2 }))
	require.Greater(t, most, 1)
	require.Equal(t, ids[3], b.deadLetters()[0].ID)
	require.LessOrEqual(t, b.count("queue_groups"), 1, "that of the dead letter may be left")
}
