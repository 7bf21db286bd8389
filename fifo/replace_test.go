package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// newer returns a message of queue q that replaces the waiting one with its deduplication id.
func newer(group, id string, payload any) fifo.Message {
	return fifo.Message{Queue: "q", GroupID: group, DedupID: id, Payload: payload, Replace: true}
}

// replaces enqueues a message, and reports whether it has replaced the job with that id. If not it is a duplicate of
// it.
func (b *bed) replaces(job int64, m fifo.Message) bool {
	b.t.Helper()
	got, err := b.client.Enqueue(promptly(b.t), m)
	require.NoError(b.t, err)
	require.Equal(b.t, []fifo.Receipt{{ID: job, Duplicate: true, Replaced: got[0].Replaced}}, got)
	return got[0].Replaced
}

// replacesBeside is replaces beside the test.
func (b *bed) replacesBeside(job int64, m fifo.Message) <-chan bool {
	replaced := make(chan bool, 1)
	go func() { replaced <- b.replaces(job, m) }()
	return replaced
}

// A job that waits gets the newer message's payload and headers, and keeps its place and all else. The window is that
// of the first.
func TestReplace(t *testing.T) { overLeases(t, testReplace) }

func testReplace(t *testing.T, by lease) {
	b := by.on(newBed(t))
	first := newer("g", "a", "first")
	first.MaxAttempts, first.Delay, first.Headers = 7, time.Hour, fifo.Headers{"h": "1", "i": "2"}
	id := b.sendAll(first)[0]
	b.send("g", "behind")
	was := b.jobs()[0]
	const expires = "SELECT expires FROM pgfifo.dedup_ids"
	until := query[time.Time](b, expires)
	second := newer("g", "a", "\x00second")
	second.Headers, second.MaxAttempts, second.Delay = fifo.Headers{"h": "\x00"}, 3, time.Minute
	require.True(t, b.replaces(id, second))
	was.Payload, was.Headers = []byte("\x00second"), second.Headers
	require.Equal(t, was, b.jobs()[0])
	require.Equal(t, until, query[time.Time](b, expires))

	b.runsOne(b.worker(nop)) // looks at the head, which is not due
	b.exec("VACUUM (FREEZE) pgfifo.jobs, pgfifo.queue_groups")
	require.True(t, b.replaces(id, newer("g", "a", "third")))
	require.Nil(t, b.jobs()[0].Headers)
	b.runsOne(b.worker(nop))
	require.True(t, b.replaces(id, newer("g", "a", "last")))
	require.False(t, b.replaces(id, newer("h", "a", "of another group")))
	require.False(t, b.replaces(id, deduped("g", "a")), "it is not asked to")
	require.NoError(t, b.q.RetryNow(t.Context(), id))
	b.work(b.worker(nop))
	require.Equal(t, []string{"last", "behind"}, b.ledger.payloads())
}

// Messages of no group replace each other, and none that has one.
func TestReplaceUngrouped(t *testing.T) {
	b := newBed(t)
	m := fifo.Message{Queue: "q", Ungrouped: true, DedupID: "a", Replace: true, Payload: "first"}
	id := b.sendAll(m)[0]
	m.Payload = "second"
	require.True(t, b.replaces(id, m))
	require.False(t, b.replaces(id, newer("g", "a", "grouped")))
	for i, group := range []string{"g", ownAlike} {
		m.DedupID = strconv.Itoa(i)
		id = b.sendAll(newer(group, m.DedupID, "grouped"))[0]
		require.False(t, b.replaces(id, m))
	}
	b.exec("UPDATE pgfifo.dedup_ids SET expires = statement_timestamp()") // the next is a first one
	m.Payload = "third"
	id = b.sendAll(m)[0]
	m.Payload = "fourth"
	require.True(t, b.replaces(id, m))
	b.work(b.worker(nop, oneLane))
	require.ElementsMatch(t, []string{"second", "grouped", "grouped", "fourth"}, b.ledger.payloads())
}

// Nothing is replaced that runs, was tried, has ended, or is of another group; and nothing is waited for.
func TestReplaceNothing(t *testing.T) {
	b := newBed(t)
	id := b.sendAll(newer("g", "a", "first"))[0]
	h := newBlocking()
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		if err := h.handle(ctx, job); err != nil || job.Attempt() > 2 {
			return err
		}
		if job.Attempt() == 2 {
			return fifo.DeadLetter(errOnPurpose)
		}
		return fifo.RetryAfter(time.Hour, errOnPurpose)
	})
	r := b.run(w)
	receive(t, h.started, "the job")
	b.exec("DELETE FROM pgfifo.attempt_marks") // few jobs have one
	require.False(t, b.replaces(id, newer("g", "a", "it runs")))
	close(h.release)
	await(t, "its failure", func() bool { return w.Stats().Retried == 1 })
	require.False(t, b.replaces(id, newer("g", "a", "it has failed")))
	require.NoError(t, b.q.RetryNow(t.Context(), id))
	await(t, "its death", func() bool { return w.Stats().Buried == 1 })
	require.False(t, b.replaces(id, newer("g", "a", "it is dead")))
	require.NoError(t, r.stop())
	b.redrive(b.q, again(id))
	require.False(t, b.replaces(id, newer("g", "a", "it was redriven")))
	tx := b.begin()
	require.NoError(t, second(b.q.InPgx(tx).Purge(t.Context())))
	require.False(t, b.replaces(id, newer("g", "a", "it is being purged")))
	require.NoError(t, tx.Commit(t.Context()))
	require.False(t, b.replaces(id, newer("g", "a", "it is gone")))
	require.Equal(t, []string{"first", "first"}, b.ledger.payloads())
	b.ledger.sent = nil
}

// A job behind the head is replaced while that runs, also if somebody has replaced it before and rolled back.
func TestReplaceBehindARollback(t *testing.T) {
	b := newBed(t)
	b.send("g", "head")
	id := b.sendAll(newer("g", "a", "older"))[0]
	h := newBlocking()
	r := b.run(b.worker(h.handle))
	receive(t, h.started, "the head")
	tx := b.begin()
	require.True(t, b.receiptsIn(tx, newer("g", "a", "rolled back"))[0].Replaced)
	require.NoError(t, tx.Rollback(t.Context()))
	require.True(t, b.replaces(id, newer("g", "a", "newest")))
	close(h.release)
	r.finish()
	require.Equal(t, []string{"head", "newest"}, b.ledger.payloads())
}

// An attempt that died with its worker was one, before anybody has counted it: by the locks that it has left, or by its
// mark alone. It is counted all the same.
func TestReplaceNothingThatWasLost(t *testing.T) { overLeases(t, testReplaceNothingThatWasLost) }

func testReplaceNothingThatWasLost(t *testing.T, by lease) {
	kinds := []string{"locks", "mark", "locks, and a claim has the group"}
	pgtest.OverEach(t, kinds, func(t *testing.T, evidence string) {
		b := by.on(newEffects(t))
		b.ledger.overlaps, b.ledger.unordered = true, true
		id := b.sendAll(newer("g", "a", "first"))[0]
		behind := b.sendAll(newer("g", "b", "behind"))[0]
		ctx, stop := context.WithCancel(t.Context())
		require.NoError(t, b.worker(func(ctx context.Context, job *fifo.Job) error {
			pid, err := backend(ctx, job)
			stop() // nobody claims it again
			return errors.Join(err, b.kill(context.WithoutCancel(ctx), pid))
		}, oneLane).Run(ctx))
		switch evidence {
		case "locks":
			b.exec("DELETE FROM pgfifo.attempt_marks")
		case "mark":
			b.exec("VACUUM (FREEZE) pgfifo.jobs, pgfifo.queue_groups")
		default: // and not looked at the job yet
			b.exec("DELETE FROM pgfifo.attempt_marks")
			b.beginWith("SELECT FROM pgfifo.queue_groups FOR NO KEY UPDATE")
			require.False(t, b.replaces(id, newer("g", "a", "second")))
			require.True(t, b.replaces(behind, newer("g", "b", "behind")))
			return
		}
		require.True(t, b.replaces(behind, newer("g", "b", "behind")), "that one has not begun")
		require.Zero(t, b.jobs()[0].Attempts, "nobody has counted it")
		require.False(t, b.replaces(id, newer("g", "a", "second")))
		b.work(b.worker(nop))
		list := b.ledger.starts
		require.Equal(t, 1, list[1].Attempts, "it is counted")
		require.Equal(t, "first", string(list[1].Payload))
	})
}

func TestReplaceInTransaction(t *testing.T) {
	b := newBed(t)
	b.run(b.worker(nop, rarePolls))
	for kind, begin := range producers {
		for _, end := range []string{"commit", "undo"} {
			name := kind + " " + end
			require.NoError(t, pausing(b.q.Group(name).Pause(t.Context(), "until it is replaced")))
			id := b.sendAll(newer(name, name, "first"))[0]
			tx := begin(b)
			require.Equal(t, id, tx.send(newer(name, name, "second"))[0])
			third := b.replacesBeside(id, newer(name, name, "third"))
			await(t, "the other producer to wait", func() bool { return b.blocked() == 1 })
			b.resumes(b.q.Group(name))
			b.send("other "+name, nil)
			b.ends("other "+name, 1)
			require.False(t, b.runsOne(b.worker(nop)))
			want := "first"
			if end == "commit" {
				want = "second"
				require.NoError(t, tx.commit())
			} else {
				require.NoError(t, tx.undo())
			}
			if receive(t, third, "the other producer") {
				want = "third"
			}
			b.drained()
			require.Equal(t, want, b.ledger.payloads()[b.ledger.started()-1], name)
		}
	}
}

// What was enqueued in the same call or transaction is replaced as well; of several newer ones the last wins.
func TestReplaceAtOnce(t *testing.T) {
	b := newBed(t)
	first := newer("g", "a", "1")
	first.Headers = fifo.Headers{"h": "1"}
	require.NoError(t, b.client.InTx(t.Context(), func(tx pgx.Tx) error {
		got, err := b.client.EnqueuePgxTx(t.Context(), tx,
			first, newer("h", "a", "another group's"), newer("g", "a", "2"), deduped("g", "a"), newer("g", "b", "b"))
		require.NoError(t, err)
		id := got[0].ID
		require.Equal(t, []fifo.Receipt{
			{ID: id},
			{ID: id, Duplicate: true},
			{ID: id, Duplicate: true, Replaced: true},
			{ID: id, Duplicate: true},
			{ID: id + 1},
		}, got)
		require.NoError(t, pgx.BeginFunc(t.Context(), tx, func(tx pgx.Tx) error {
			got, err = b.client.EnqueuePgxTx(t.Context(), tx, newer("g", "a", "3"), newer("g", "a", "4"))
			return err
		}))
		require.True(t, got[0].Replaced)
		require.True(t, got[1].Replaced)
		inner, err := tx.Begin(t.Context())
		require.NoError(t, err)
		b.receiptsIn(inner, newer("g", "a", "undone"))
		return inner.Rollback(t.Context())
	}))
	jobs := b.jobs()
	require.Len(t, jobs, 2)
	require.Equal(t, "4", string(jobs[0].Payload))
	require.Empty(t, jobs[0].Headers)
	b.work(b.worker(nop))
}

// At REPEATABLE READ nothing is replaced but what is of the same call: no snapshot tells of attempts since.
func TestReplaceRepeatableRead(t *testing.T) {
	b := newBed(t)
	id := b.sendAll(newer("g", "a", "first"))[0]
	for _, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		tx, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
		require.NoError(t, err)
		got := b.receiptsIn(tx, newer("g", "a", "second"),
			newer("g", string(isolation), "1"), newer("g", string(isolation), "2"))
		require.Equal(t, fifo.Receipt{ID: id, Duplicate: true}, got[0])
		require.True(t, got[2].Replaced)
		require.NoError(t, tx.Commit(t.Context()))
	}
	b.work(b.worker(nop))
	require.Equal(t, []string{"first", "2", "2"}, b.ledger.payloads())
}

// What a producer was told last is what a job commits, however producers and workers meet.
func TestReplaceUnderLoad(t *testing.T) {
	pgtest.OverAll(t, oneAndBatches(5), func(t *testing.T, batch fifo.Queue) {
		b := newBed(t)
		b.exec("CREATE TABLE worked (id bigint PRIMARY KEY, payload bytea NOT NULL)")
		b.ledger.unordered = true // a batch is undone
		w := b.each(batch, func(ctx context.Context, job *fifo.Job) error {
			return exec(ctx, job, "INSERT INTO worked VALUES ($1, $2)", job.ID, job.Payload)
		}, func(w *fifo.Worker) { w.Concurrency = 3 })
		b.run(w)
		var mu sync.Mutex
		last, replaced := make(map[int64]string), 0
		var producers sync.WaitGroup
		const each, rounds = 6, 12
		for p := range each {
			producers.Go(func() {
				for i := range rounds {
					group, id := fmt.Sprint("g", i%4), fmt.Sprint(p, " ", i)
					for n := range 20 {
						payload := fmt.Sprint(id, " ", n)
						got, err := b.client.Enqueue(t.Context(), newer(group, id, payload))
						if err != nil {
							t.Error(err)
							return
						}
						if got[0].Duplicate && !got[0].Replaced {
							break
						}
						mu.Lock()
						last[got[0].ID] = payload
						if n > 0 {
							replaced++
						}
						mu.Unlock()
					}
				}
			})
		}
		producers.Wait()
		b.drained()
		require.Len(t, last, each*rounds)
		require.NotZero(t, replaced)
		t.Log(replaced, "were replaced")
		require.Equal(t, last, query[map[int64]string](b,
			"SELECT jsonb_object_agg(id, convert_from(payload, 'UTF8')) FROM worked"))
	})
}

// A claim has the row of a delayed or paused head for a moment, to look at it. A newer message waits for that.
func TestReplaceWhatAClaimLooksAt(t *testing.T) {
	delays := map[string]time.Duration{"delayed": time.Hour, "paused": 0}
	pgtest.OverAll(t, delays, func(t *testing.T, delay time.Duration) {
		b := newBed(t)
		first, second := newer("g", "a", "first"), newer("g", "a", "second")
		first.Delay, second.Delay = delay, delay
		id := b.sendAll(first)[0]
		if delay == 0 {
			require.NoError(t, pausing(b.q.Group("g").Pause(t.Context(), "")))
		}
		claim := b.beginWith("SELECT FROM pgfifo.jobs FOR UPDATE")
		replaced := b.replacesBeside(id, second)
		await(t, "the producer", func() bool {
			return len(replaced) > 0 || query[bool](b, "SELECT EXISTS (SELECT FROM pg_stat_activity "+
				"WHERE datname = current_database() AND wait_event = 'PgSleep')")
		})
		require.NoError(t, claim.Commit(t.Context()))
		require.True(t, receive(t, replaced, "the producer"))
		require.Equal(t, "second", string(b.jobs()[0].Payload))
	})
}

// It does not wait for long: somebody may keep the job.
func TestReplaceWhatSomebodyKeeps(t *testing.T) {
	b := newBed(t)
	first := newer("g", "a", "first")
	first.Delay = time.Hour
	id := b.sendAll(first)[0]
	b.beginWith("SELECT FROM pgfifo.jobs FOR UPDATE")
	require.False(t, b.replaces(id, newer("g", "a", "second")))
}
