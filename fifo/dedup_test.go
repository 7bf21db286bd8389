package fifo_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// deduped returns a message of queue q with a deduplication id, whose payload is its group and the id.
func deduped(group, id string) fifo.Message {
	return fifo.Message{Queue: "q", GroupID: group, DedupID: id, Payload: group + " " + id}
}

// A duplicate is not enqueued, and its receipt has the first one's job, also when that is done, dead or redriven, and
// until the window is over by the server's clock.
func TestDedup(t *testing.T) {
	b := newBed(t)
	first := b.receipts(deduped("g", "a"))
	require.False(t, first[0].Duplicate)
	duplicate := []fifo.Receipt{{ID: first[0].ID, Duplicate: true}}
	requireDuplicate := func(what string) {
		t.Helper()
		for _, group := range []string{"g", "another"} {
			require.Equal(t, duplicate, b.receipts(deduped(group, "a")), what)
		}
	}
	requireDuplicate("it waits")
	b.work(b.worker(failing(1, fifo.DeadLetter(errOnPurpose))))
	requireDuplicate("it is dead")
	require.Equal(t, []int64{first[0].ID}, b.redrive(b.q, again(first[0].ID)), "which is no enqueue")
	requireDuplicate("it waits again")
	require.Equal(t, first[0].ID, only(t, b.jobs()).ID)
	b.work(b.worker(nop))
	requireDuplicate("it is done")
	require.Zero(t, b.count("jobs"))
	other := b.receipts(deduped("g", "A"),
		fifo.Message{Queue: "other", GroupID: "g", DedupID: "a"}, fifo.Message{Queue: "q", GroupID: "g"})
	for _, r := range other {
		require.False(t, r.Duplicate, "another id, another queue, none")
	}
	require.Equal(t, 3, b.count("jobs"))

	b.exec("UPDATE pgfifo.dedup_ids SET expires = statement_timestamp() + interval '1 second' - interval '1 second'")
	again := b.receipts(deduped("g", "a"))
	require.False(t, again[0].Duplicate)
	require.Greater(t, again[0].ID, other[2].ID)
	duplicate[0].ID = again[0].ID
	requireDuplicate("the window is over, and the next one has begun")
	require.Equal(t, 5*time.Minute, query[time.Duration](b,
		"SELECT max(d.expires) - max(j.enqueued_at) FROM pgfifo.dedup_ids d JOIN pgfifo.jobs j ON j.id = d.job "+
			"WHERE d.job = $1", again[0].ID).Round(time.Minute))
}

// The window and the scope are the queue's.
func TestDedupSettings(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{DedupWindow: 48 * time.Hour, DedupByGroup: true}))
	got := b.receipts(deduped("g", "a"), deduped("h", "a"), deduped("g", "a"))
	require.False(t, got[0].Duplicate)
	require.False(t, got[1].Duplicate, "an id of another group")
	require.Equal(t, fifo.Receipt{ID: got[0].ID, Duplicate: true}, got[2])
	alone := fifo.Message{Queue: "q", Ungrouped: true, DedupID: "b"}
	two := b.receipts(alone, alone)
	require.Equal(t, fifo.Receipt{ID: two[0].ID, Duplicate: true}, two[1], "those of no group are of one here")
	require.NoError(t, b.client.Queue("elsewhere").Configure(t.Context(), fifo.Settings{DedupByGroup: true}))
	first := fifo.Message{Queue: "elsewhere", GroupID: "g", DedupID: "c"}
	b.exec("UPDATE pgfifo.queues SET dedup_by_group = false WHERE queue = 'elsewhere'")
	b.sendAll(first)
	b.exec("UPDATE pgfifo.queues SET dedup_by_group = true WHERE queue = 'elsewhere'")
	for _, m := range []fifo.Message{first, {Queue: "elsewhere", Ungrouped: true, DedupID: "c"}} {
		got = b.receipts(m)
		require.False(t, got[0].Duplicate, "what was remembered before the change")
	}
	like := fifo.Message{Queue: "q", GroupID: "~" + strings.Repeat("a", 24), DedupID: "b"}
	got = b.receipts(like)
	require.False(t, got[0].Duplicate, "a group whose id looks as if it was drawn is a group")
	require.Equal(t, 4, query[int](b, `SELECT count(*) FROM pgfifo.dedup_ids
		WHERE expires BETWEEN now() + interval '47 hours' AND now() + interval '48 hours'`))
}

// Duplicates within one call, beside messages without a deduplication id, in each kind of transaction: the receipts are
// in the order of the messages, and all of them keep their headers and times.
func TestDedupInOneCall(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, order bool) {
		pgtest.OverAll(t, producers, func(t *testing.T, begin func(*bed) producer) {
			b := newBed(t, func(c *fifo.Config) { c.CommitOrder = order })
			first := b.receipts(deduped("g", "stored"))
			msgs := []fifo.Message{
				{Queue: "q", GroupID: "g", Payload: "0"},
				deduped("g", "stored"), deduped("g", "b"), deduped("h", "a"), deduped("h", "b"),
				{Queue: "q", GroupID: "h", Payload: "5", Headers: fifo.Headers{"n": "5\x00"}},
				{Queue: "r", GroupID: "g", Payload: "6", DedupID: `b"\{},`, RunAt: time.Now().Add(time.Hour)},
				deduped("g", "a"),
			}
			p := begin(b)
			ids := p.send(msgs...)
			require.Equal(t, []int64{first[0].ID, ids[2], ids[3]}, []int64{ids[1], ids[4], ids[7]})
			require.IsIncreasing(t, []int64{ids[1], ids[0], ids[2], ids[3], ids[5], ids[6]})
			again := p.send(msgs[1:5]...)
			require.Equal(t, ids[1:5], again, "in a second call")
			require.NoError(t, p.commit())
			got := make(map[int64]fifo.Job)
			for _, job := range b.jobs() {
				got[job.ID] = job
			}
			require.Len(t, got, 6)
			for n, payload := range map[int]string{0: "0", 1: "g stored", 2: "g b", 3: "h a", 5: "5", 6: "6"} {
				require.Equal(t, payload, string(got[ids[n]].Payload))
			}
			require.Equal(t, fifo.Headers{"n": "5\x00"}, got[ids[5]].Headers)
			require.NotZero(t, got[ids[6]].RunAt)
			receipts := b.receipts(msgs...)
			for n, r := range receipts {
				require.Equal(t, msgs[n].DedupID != "", r.Duplicate)
				require.Equal(t, r.Duplicate, r.ID == ids[n])
			}
		})
	})
}

// blocked returns how many sessions wait for another one's transaction.
func (b *bed) blocked() int {
	return query[int](b, `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0`)
}

// The second of two concurrent duplicates waits for the first one's transaction: it is a duplicate if that commits, and
// else takes its place, with an id that is drawn then.
func TestDedupAtOnce(t *testing.T) {
	pgtest.OverAll(t, producers, func(t *testing.T, begin func(*bed) producer) {
		pgtest.OverEach(t, []string{"commit", "undo"}, func(t *testing.T, end string) {
			b := newBed(t)
			first := begin(b)
			ids := first.send(deduped("g", "a"))
			var got []fifo.Receipt
			second := beside(func() (err error) {
				got, err = b.client.Enqueue(t.Context(), fifo.Message{Queue: "q", GroupID: "g"}, deduped("g", "a"))
				return err
			})
			await(t, "the second producer to wait", func() bool { return b.blocked() == 1 })
			third := b.receipts(deduped("g", "other"))
			if end == "commit" {
				require.NoError(t, first.commit())
			} else {
				require.NoError(t, first.undo())
			}
			require.NoError(t, receive(t, second, "the second producer"))
			require.Greater(t, got[0].ID, third[0].ID, "no id is drawn while it waits")
			if end == "commit" {
				require.Equal(t, fifo.Receipt{ID: ids[0], Duplicate: true}, got[1])
			} else {
				require.False(t, got[1].Duplicate)
				require.Greater(t, got[1].ID, got[0].ID)
			}
			require.Equal(t, 3, b.count("jobs"))
		})
	})
}

// However long the first one's transaction was open: the second is a duplicate, by whichever way it comes.
func TestDedupBehindALongTransaction(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, again bool) {
		pgtest.OverEach(t, []string{"client", "function"}, func(t *testing.T, by string) {
			b := newBed(t)
			require.NoError(t, b.q.Configure(t.Context(), fifo.Settings{DedupWindow: time.Second}))
			if again { // the id is there, and has expired
				b.receipts(deduped("g", "a"))
				b.exec("UPDATE pgfifo.dedup_ids SET expires = statement_timestamp()")
			}
			tx := b.begin()
			first := b.receiptsIn(tx, deduped("g", "a"))[0]
			require.False(t, first.Duplicate)
			since := query[time.Time](b, "SELECT clock_timestamp()")
			await(t, "the end of its window", func() bool {
				return query[bool](b, "SELECT clock_timestamp() > $1::timestamptz + interval '1 s'", since)
			})
			var got fifo.Receipt
			second := beside(func() error {
				if by == "function" {
					const call = "SELECT * FROM pgfifo.enqueue('q', 'g', 'x', dedup_id => 'a')"
					return b.pool.QueryRow(t.Context(), call).Scan(&got.ID, &got.Duplicate, &got.Replaced)
				}
				all, err := b.client.Enqueue(t.Context(), deduped("g", "a"))
				if err == nil {
					got = all[0]
				}
				return err
			})
			await(t, "the second producer to wait", func() bool { return b.blocked() == 1 })
			require.NoError(t, tx.Commit(t.Context()))
			require.NoError(t, receive(t, second, "the second producer"))
			require.Equal(t, fifo.Receipt{ID: first.ID, Duplicate: true}, got)
			b.exec("UPDATE pgfifo.dedup_ids SET expires = statement_timestamp()")
			require.False(t, b.receipts(deduped("g", "a"))[0].Duplicate, "whoever has not waited")
		})
	})
}

// What is undone to a savepoint was not taken: neither for the transaction itself nor for one that waits for it.
func TestDedupSavepoint(t *testing.T) {
	b := newBed(t)
	tx := b.begin()
	inner, err := tx.Begin(t.Context())
	require.NoError(t, err)
	b.receiptsIn(inner, deduped("g", "mine"), deduped("g", "other"))
	var got []fifo.Receipt
	second := beside(func() (err error) {
		got, err = b.client.Enqueue(t.Context(), deduped("g", "other"))
		return err
	})
	await(t, "the second producer to wait", func() bool { return b.blocked() == 1 })
	require.NoError(t, inner.Rollback(t.Context()))
	require.NoError(t, receive(t, second, "the second producer"))
	require.False(t, got[0].Duplicate, "of nothing")
	got = b.receiptsIn(tx, deduped("g", "mine"), deduped("g", "other"))
	require.False(t, got[0].Duplicate)
	require.True(t, got[1].Duplicate)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, 2, b.count("jobs"))
}

// Many producers that enqueue the same ids in different orders: no deadlock, and one job of each id.
func TestDedupBatches(t *testing.T) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, order bool) {
		b := newBed(t, func(c *fifo.Config) { c.CommitOrder = order })
		b.run(b.worker(nop))
		var wg sync.WaitGroup
		errs := make(chan error, 200)
		var mu sync.Mutex
		fresh, seen := make(map[string]int), make(map[string]int64)
		for p := range 8 {
			wg.Go(func() {
				for i := range 12 {
					var msgs []fifo.Message
					for j := range 6 {
						k := (p*5 + j*(2*(p%2)+5)) % 6
						msgs = append(msgs, deduped(fmt.Sprint("g", k%3), fmt.Sprint(i, " ", k)))
					}
					got, err := b.client.Enqueue(t.Context(), msgs...)
					errs <- err
					mu.Lock()
					for n, r := range got {
						id := msgs[n].DedupID
						if seen[id] != 0 && seen[id] != r.ID {
							fresh[id] += 100
						}
						if seen[id] = r.ID; !r.Duplicate {
							fresh[id]++
						}
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		b.drained()
		require.NotEmpty(t, fresh)
		for id, n := range fresh {
			require.Equal(t, 1, n, id)
		}
		await(t, "all jobs", func() bool { return len(b.ledger.order()) == len(fresh) })
	})
}

// An id that was taken in a transaction which then enqueued nothing, because its context ended in between, is not one
// of a message that was enqueued.
func TestDedupTakenAndNotUsed(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.dedup_ids (key, expires)
		VALUES (sha256(convert_to(E'q\n\na', 'UTF8')), now() + interval '1 hour')`)
	got := b.receipts(deduped("g", "a"))
	require.False(t, got[0].Duplicate)
	require.Equal(t, 1, b.count("jobs"))
	require.Equal(t, got[0].ID, query[int64](b, "SELECT job FROM pgfifo.dedup_ids"))
	require.True(t, query[bool](b, "SELECT expires < now() + interval '10 minutes' FROM pgfifo.dedup_ids"))
}

// A caller at REPEATABLE READ meets what was committed since it began with an error, and never enqueues twice.
func TestDedupRepeatableRead(t *testing.T) {
	b := newBed(t)
	for _, isolation := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		id := string(isolation)
		tx, err := b.pool.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: isolation})
		require.NoError(t, err)
		b.receiptsIn(tx, deduped("g", id+" mine"), deduped("g", id+" mine"))
		b.receipts(deduped("g", id))
		_, err = b.client.EnqueuePgxTx(t.Context(), tx, deduped("g", id))
		var pgErr *pgconn.PgError
		require.ErrorAs(t, err, &pgErr)
		require.Equal(t, "40001", pgErr.Code)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	require.Equal(t, 2, b.count("jobs"))
	b.isolate("repeatable read")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 20 {
				_, err := b.client.Enqueue(t.Context(), deduped("g", fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, 22, b.count("jobs"), "the database's default is not Enqueue's")
}

// A hook may give an id, and sees what became of it.
func TestDedupByHook(t *testing.T) {
	var seen []fifo.Receipt
	b := newBed(t, hooked(fifo.Hooks{
		Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			for i := range msgs {
				msgs[i].DedupID, _ = fifo.ContentID(msgs[i].Payload)
			}
			return ctx, func(receipts []fifo.Receipt, err error) {
				seen = append(seen, receipts...)
				clear(receipts) // those of the caller are others
			}
		},
	}))
	m := fifo.Message{Queue: "q", GroupID: "g", Payload: map[string]int{"b": 1, "a": 2}}
	got := append(b.receipts(m), b.receipts(m)...)
	require.Equal(t, []fifo.Receipt{{ID: seen[0].ID}, {ID: seen[0].ID, Duplicate: true}}, seen)
	require.Equal(t, seen, got)
}

// What is announced of a call with duplicates are its new jobs, and of one with nothing else nothing.
func TestDedupIsAnnounced(t *testing.T) {
	b := newBed(t)
	b.run(b.worker(nop, func(w *fifo.Worker) { w.PollInterval = time.Hour }))
	for i := range 3 {
		for range 2 {
			b.receipts(deduped("g", "always"), deduped("h", fmt.Sprint(i)))
		}
		await(t, "the new jobs", func() bool { return len(b.ledger.order()) == 2+i })
	}
}

func TestContentID(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(`{"a":1}`))
	want := hex.EncodeToString(sum[:])
	for _, payload := range []any{
		`{"a":1}`, []byte(`{"a":1}`), json.RawMessage(`{"a":1}`), map[string]int{"a": 1}, struct {
			A int `json:"a"`
		}{1},
	} {
		got, err := fifo.ContentID(payload)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := fifo.ContentID(func() {})
	require.ErrorIs(t, err, fifo.ErrInvalidMessage)
}
