package fifo_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// oneJob has the verbs for one job.
var oneJob = map[string]func(ctx context.Context, s fifo.Scope, id int64) error{
	"retry":  func(ctx context.Context, s fifo.Scope, id int64) error { return s.RetryNow(ctx, id) },
	"delete": func(ctx context.Context, s fifo.Scope, id int64) error { return s.Delete(ctx, id) },
	"bury":   func(ctx context.Context, s fifo.Scope, id int64) error { return s.Bury(ctx, id, "of no use") },
	"edit": func(ctx context.Context, s fifo.Scope, id int64) error {
		return s.Edit(ctx, id, func(job *fifo.Job) error {
			job.Payload, job.Headers = []byte("mended"), fifo.Headers{"by": "\x00"}
			return nil
		})
	},
}

// oneLetter has what those verbs say of a dead letter.
var oneLetter = map[string]string{
	"retry":  "use Redrive",
	"delete": "use DeleteDeadLetters",
	"edit":   "use Redrive of its group, with its id in IDs, and a Payload or Headers",
}

// A job that runs is not touched, and not waited for, whether its handler has the job's transaction or not. What waits
// behind it is, and what is not there is told. The job ends although the operator's transaction is open.
func TestVerbsPassOverARunningJob(t *testing.T) { overLeases(t, testVerbsPassOverARunningJob) }

func testVerbsPassOverARunningJob(t *testing.T, by lease) {
	pgtest.OverEach(t, []bool{false, true}, func(t *testing.T, taken bool) {
		b := by.on(newBed(t))
		ids := b.send("g", "one", "two")
		h := newBlocking()
		b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
			if taken {
				if _, err := job.PgxTx(ctx); err != nil {
					return err
				}
			}
			return h.handle(ctx, job)
		}, oneLane))
		receive(t, h.started, "the head")
		before := b.jobs()
		tx := b.begin()
		require.Equal(t, []int{1, 1, 1, 1}, b.all(tx, ids[0], func(name string, err error) {
			require.ErrorIs(t, err, fifo.ErrJobHeld, name)
			require.ErrorContains(t, err, "cannot "+name+" it: job ")
			require.ErrorContains(t, err, " runs since ")
		}))
		b.plant("q", 1, "dead")
		dead := b.why("dead").HeadID
		require.NoError(t, b.q.Bury(t.Context(), dead, ""))
		for name, verb := range oneJob {
			require.ErrorIs(t, verb(promptly(t), b.q, ids[0]), fifo.ErrJobHeld, name)
			require.ErrorIs(t, verb(promptly(t), b.q.Group("other"), ids[1]), fifo.ErrJobNotFound, name)
			require.ErrorIs(t, verb(promptly(t), b.q, -1), fifo.ErrJobNotFound, name)
			err := verb(promptly(t), b.q, dead)
			require.ErrorIs(t, err, fifo.ErrJobNotFound, name)
			require.ErrorContains(t, err, "is a dead letter since")
			require.ErrorContains(t, err, oneLetter[name])
		}
		require.Equal(t, before, b.jobs())
		n, err := b.q.InPgx(tx).Purge(promptly(t))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		close(h.release)
		await(t, "the end of the job", func() bool { return len(b.jobs()) == 1 })
		require.NoError(t, tx.Rollback(t.Context()))
		b.drained()
		require.Equal(t, ids, b.ledger.order())
	})
}

// A job that backs off runs at once when it is told to, with its attempts, also by a worker that would not look for an
// hour.
func TestRetryNow(t *testing.T) {
	b := newBed(t)
	ids := b.send("g", "one", "two")
	w := b.worker(failing(1, fifo.RetryAfter(time.Hour, errOnPurpose)), rarePolls, oneLane)
	r := b.run(w)
	for i, id := range ids {
		await(t, "the failure", func() bool { return w.Stats().Retried == int64(i+1) })
		require.NoError(t, b.q.RetryNow(t.Context(), id))
	}
	r.finish()
	require.Equal(t, []int64{ids[0], ids[0], ids[1], ids[1]}, b.ledger.order(), "in order")
	require.Equal(t, 1, b.ledger.starts[1].Attempts)
}

// What is done to one job in a transaction is there if and when that commits.
func TestVerbsOnOneJob(t *testing.T) {
	pgtest.OverAll(t, scopesWithin, func(t *testing.T, within scopeWithin) {
		b := newBed(t)
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, attempts, run_at, failures)
			SELECT 'q', 'g', 'p', 1, '2030-01-01', '[{"attempt": 1, "kind": "error", "error": "e", "worker": "w",
			"at": "2026-01-01T00:00:00Z"}]' FROM generate_series(1, 4)`)
		before := b.jobs()
		b.undoneAndKept(within, b.q, func(s fifo.Scope) {
			for i, name := range []string{"retry", "delete", "bury", "edit"} {
				require.NoError(t, oneJob[name](t.Context(), s, before[i].ID), name)
			}
		}, func() { require.Equal(t, before, b.jobs()) })
		jobs, dead := b.jobs(), b.deadLetters()
		require.Len(t, jobs, 2)
		require.Equal(t, before[0].ID, jobs[0].ID)
		require.Equal(t, 1, jobs[0].Attempts)
		require.WithinDuration(t, time.Now(), jobs[0].RunAt, time.Minute)
		require.Equal(t, "mended", string(jobs[1].Payload))
		require.Equal(t, fifo.Headers{"by": "\x00"}, jobs[1].Headers)
		jobs[1].Payload, jobs[1].Headers = before[3].Payload, nil
		require.Equal(t, before[3], jobs[1], "nothing else has changed")
		require.Len(t, dead, 1)
		require.Equal(t, before[2].ID, dead[0].ID)
		require.Len(t, dead[0].Failures, 2)
		last := dead[0].Failures[1]
		require.Equal(t, fifo.KindOperator, last.Kind)
		require.Equal(t, "of no use", last.Error)
		require.NotEmpty(t, last.Worker)
		require.WithinDuration(t, time.Now(), last.At, time.Minute)
	})
}

// What an edit leaves is checked like a message, and an error of the function's changes nothing.
func TestEditIsChecked(t *testing.T) {
	b := newBed(t)
	id := b.send("g", "fine")[0]
	g := b.q.Group("g")
	for want, f := range map[error]func(job *fifo.Job){
		fifo.ErrPayloadTooLarge: func(job *fifo.Job) { job.Payload = make([]byte, fifo.MaxPayloadBytes+1) },
		fifo.ErrInvalidMessage:  func(job *fifo.Job) { job.Headers = fifo.Headers{"\n": ""} },
		errOnPurpose:            func(job *fifo.Job) { job.Payload = []byte("other") },
	} {
		err := g.Edit(t.Context(), id, func(job *fifo.Job) error {
			if f(job); errors.Is(want, errOnPurpose) {
				return want
			}
			return nil
		})
		require.ErrorIs(t, err, want)
	}
	require.Equal(t, "fine", string(b.jobs()[0].Payload))
	require.NoError(t, g.Edit(t.Context(), id, func(job *fifo.Job) error {
		job.Payload, job.GroupID, job.Attempts, job.ID = nil, "other", 7, 1<<40 // but for the payload, to no avail
		return nil
	}))
	require.Empty(t, b.jobs()[0].Payload)
	require.Equal(t, "g", b.jobs()[0].GroupID)
	require.Zero(t, b.jobs()[0].Attempts)
	b.work(b.worker(nop))
}

// No database is asked before that.
func TestEditWithoutAFunction(t *testing.T) {
	t.Parallel()
	q := nowhere(t).Queue("q")
	require.ErrorContains(t, q.Edit(t.Context(), 1, nil), "nil function")
	require.ErrorContains(t, q.InPgx(&pgxpool.Tx{}).Edit(t.Context(), 1, nil), "nil function")
}

// No worker takes a job that is being edited, nor one behind it.
func TestJobThatIsEditedStandsStill(t *testing.T) {
	b := newBed(t)
	ids := b.send("g", "one", "two")
	require.NoError(t, b.q.Edit(t.Context(), ids[0], func(job *fifo.Job) error {
		job.Payload = []byte("mended")
		require.False(t, b.runsOne(b.worker(nop)))
		for name, verb := range oneJob {
			require.ErrorIs(t, verb(promptly(t), b.q, ids[0]), fifo.ErrJobHeld, name)
		}
		return nil
	}))
	b.work(b.worker(nop))
	require.Equal(t, []string{"mended", "two"}, b.ledger.payloads())
}

// A job that runs behind the head of a batch is not held. If it is changed, or replaced by a newer message, nothing of
// the batch is committed, and it runs again with what is there.
func TestVerbsInsideABatch(t *testing.T) {
	b := newList(t)
	var mu sync.Mutex
	payloads, changed := make(map[string]string), make(map[string]bool)
	w := b.slice(fifo.Queue{BatchJobs: 3}, func(ctx context.Context, jobs []*fifo.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if name := jobs[0].GroupID; !changed[name] && len(jobs) > 1 {
			changed[name] = true
			if name == "replace" {
				require.False(t, b.replaces(jobs[0].ID, newer(name, "one", "not the head")))
				require.True(t, b.replaces(jobs[1].ID, newer(name, "two", "newer")))
			} else {
				require.NoError(t, oneJob[name](promptly(t), b.q, jobs[1].ID))
			}
		} else {
			for _, job := range jobs {
				payloads[name] += string(job.Payload) + " "
			}
		}
		return noteAll(ctx, jobs)
	})
	want := map[string]string{
		"retry": "one two three ", "edit": "one mended three ", "delete": "one three ", "bury": "one three ",
	}
	for name := range want {
		b.send(name, "one", "two", "three")
	}
	want["replace"] = "one newer three "
	b.sendAll(newer("replace", "one", "one"), newer("replace", "two", "two"), newer("replace", "three", "three"))
	b.ledger.sent = nil // some are deleted
	b.work(w)
	require.Equal(t, want, payloads, "once each, and in order")
	require.Equal(t, 13, query[int](b, "SELECT count(*) FROM list"), "nothing stays of before")
}

// Workers that are not told find the job behind a delayed head that was taken away, also beside so many delayed groups
// that they walk over them only now and then.
func TestNextOfADelayedHead(t *testing.T) {
	t.Parallel()
	b := bedOn(t, pgtest.URL(t), func(c *fifo.Config) { c.PollOnly = true }) // nothing was read in it
	const many = 100_000
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at)
		SELECT 'q', 'd' || i, '', now() + interval '1 day' FROM generate_series(1, $1) i`, many)
	w := &fifo.Worker{Client: b.client, Concurrency: 4}
	w.Handle("q", nop)
	b.run(w)
	require.True(t, pgtest.Wait(4*patience, func() bool { // a walk leaves the server to others for most of the time
		return query[int](b, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_pkey'") >= many
	}), "the first walk")
	done := int64(0)
	look := func() { // a job that is found when the worker looks for what is new
		t.Helper()
		b.receipts(fifo.Message{Queue: "q", Ungrouped: true})
		done++
		await(t, "a look", func() bool { return w.Stats().Succeeded == done })
	}
	look()
	look()
	ids := make(map[string][]fifo.Receipt)
	for group, delay := range map[string]time.Duration{
		"delete": 0, "bury": 0, "two": 0, "delayed": 100 * time.Millisecond,
	} {
		next := fifo.Message{Queue: "q", GroupID: group, Delay: delay}
		ids[group] = b.receipts(fifo.Message{Queue: "q", GroupID: group, Delay: time.Hour}, next, next)
	}
	look()
	look()
	require.NoError(t, b.q.Delete(t.Context(), ids["delete"][0].ID))
	require.NoError(t, b.q.Bury(t.Context(), ids["bury"][0].ID, ""))
	require.NoError(t, b.q.Delete(t.Context(), ids["delayed"][0].ID))
	tx := b.begin()
	for _, r := range ids["two"][:2] {
		require.NoError(t, b.q.InPgx(tx).Delete(t.Context(), r.ID))
	}
	require.NoError(t, tx.Commit(t.Context()))
	await(t, "the next jobs", func() bool { return w.Stats().Succeeded == done+7 })
}

// Whoever refers to a job by a foreign key has it locked in a way that only its deletion meets, and is not waited for.
func TestVerbsBesideAForeignKey(t *testing.T) {
	b := newBed(t)
	q, ids := b.q, b.send("g", "a", "b", "c", "d")
	tx := b.beginWith("SELECT FROM pgfifo.jobs FOR KEY SHARE")
	for verb, id := range map[string]int64{"delete": ids[0], "bury": ids[1]} {
		err := oneJob[verb](promptly(t), q, id)
		require.ErrorIs(t, err, fifo.ErrJobHeld)
		require.ErrorContains(t, err, "foreign key")
	}
	require.NoError(t, oneJob["retry"](promptly(t), q, ids[2]))
	require.NoError(t, oneJob["edit"](promptly(t), q, ids[3]))
	require.Len(t, b.jobs(), 4)
	require.Empty(t, b.deadLetters())
	require.NoError(t, tx.Rollback(t.Context()))
	b.work(b.worker(nop))
}

// A job that begins just before it would be locked is told to run, and not to be locked by somebody.
func TestVerbBesideAClaim(t *testing.T) {
	b := newBed(t)
	id := b.send("g", "a")[0]
	h := newBlocking()
	q := b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Tracer = &meanwhile{text: "-- Locks a job that is to be changed", do: func() {
			b.run(b.worker(h.handle))
			receive(t, h.started, "the job")
		}}
	})).Queue("q")
	err := q.Delete(promptly(t), id)
	require.ErrorIs(t, err, fifo.ErrJobHeld)
	require.ErrorContains(t, err, " runs since ")
	close(h.release)
	b.drained()
}

// A lettingGo is a transaction that calls do behind the statement that locks a job.
type lettingGo struct {
	pgx.Tx
	locks bool
	do    func()
}

func (l *lettingGo) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if l.locks {
		l.do()
	}
	l.locks = strings.Contains(sql, "-- Locks a job that is to be changed")
	return l.Tx.Query(ctx, sql, args...)
}

// Of a job whose holder goes just after it could not be locked, the error says both: that it was held, and what it is.
func TestVerbBesideWhoLetsGo(t *testing.T) {
	b := newBed(t)
	id := b.send("g", "a")[0]
	holder := b.beginWith("SELECT FROM pgfifo.jobs FOR NO KEY UPDATE")
	tx := &lettingGo{Tx: b.begin(), do: func() { require.NoError(t, holder.Rollback(t.Context())) }}
	err := b.q.InPgx(tx).Delete(promptly(t), id)
	require.ErrorIs(t, err, fifo.ErrJobHeld)
	require.Regexp(t, "somebody had it locked a moment ago: try again; now job .* may run since ", err)
	require.NoError(t, tx.Rollback(t.Context()))
	b.work(b.worker(nop))
}

// In a transaction that has looked at a group before, Why and Terminate see who has begun to run it since.
func TestLooksAgainInATransaction(t *testing.T) {
	b := newBed(t)
	b.ledger.overlaps = true
	h := newBlocking()
	b.send("g", "a")
	tx := b.begin()
	g := b.q.Group("g").InPgx(tx)
	why, err := g.Why(t.Context())
	require.NoError(t, err)
	require.False(t, why.Held)
	b.run(b.worker(h.handle))
	receive(t, h.started, "the job")
	why, err = g.Why(t.Context())
	require.NoError(t, err)
	require.NotZero(t, why.PID)
	require.True(t, b.terminates(g))
	require.NoError(t, tx.Commit(t.Context()))
	close(h.release)
	b.drained()
}
