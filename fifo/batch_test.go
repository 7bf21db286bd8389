package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// newList is a bed with a table in which handlers note what they worked, in which transaction.
func newList(t *testing.T, adjust ...func(*fifo.Config)) *bed {
	t.Helper()
	b := newBed(t, adjust...)
	b.exec(`CREATE TABLE list (n bigserial, group_id text, id bigint, attempt int,
		xid text DEFAULT pg_current_xact_id()::text)`)
	return b
}

// note enters a job in the list, in its own transaction.
func note(ctx context.Context, job *fifo.Job) error {
	return exec(ctx, job, "INSERT INTO list (group_id, id, attempt) VALUES ($1, $2, $3)", job.GroupID,
		job.ID, job.Attempt())
}

func noteAll(ctx context.Context, jobs []*fifo.Job) error { return oneAfterTheOther(note)(ctx, jobs) }

// batches returns the jobs of the list by transaction, in order.
func (b *bed) batches() (list [][]int64) {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), "SELECT array_agg(id ORDER BY n) FROM list GROUP BY xid ORDER BY min(n)")
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var ids []int64
		require.NoError(b.t, rows.Scan(&ids))
		list = append(list, ids)
	}
	require.NoError(b.t, rows.Err())
	return list
}

// batches are those of both kinds, with n jobs.
func batches(n int) map[string]fifo.Queue {
	return map[string]fifo.Queue{"jobs": {BatchJobs: n}, "groups": {BatchGroups: n}}
}

// oneAndBatches are those, and a queue without.
func oneAndBatches(n int) map[string]fifo.Queue {
	return map[string]fifo.Queue{"one": {}, "jobs": {BatchJobs: n}, "groups": {BatchGroups: n}}
}

// each is worker with batches.
func (b *bed) each(batch fifo.Queue, h fifo.Handler, adjust ...func(*fifo.Worker)) *fifo.Worker {
	b.t.Helper()
	w := b.bare(adjust)
	batch.Handler = b.ledger.record(h)
	w.HandleQueue("q", batch)
	return w
}

type batchHandler = func(ctx context.Context, jobs []*fifo.Job) error

// slice is worker with a BatchHandler. A batch that is undone begins again, so the ledger does not judge the order of
// attempts; the list tells that of effects.
func (b *bed) slice(batch fifo.Queue, h batchHandler, adjust ...func(*fifo.Worker)) *fifo.Worker {
	b.t.Helper()
	b.ledger.unordered = true
	w := b.bare(adjust)
	batch.BatchHandler = func(ctx context.Context, jobs []*fifo.Job) error {
		for i, job := range jobs {
			if i > 0 && job.GroupID == jobs[i-1].GroupID {
				b.ledger.end(jobs[i-1])
			}
			b.ledger.start(job)
			defer b.ledger.end(job)
		}
		return h(ctx, jobs)
	}
	w.HandleQueue("q", batch)
	return w
}

func (b *bed) bare(adjust []func(*fifo.Worker)) *fifo.Worker {
	w := &fifo.Worker{
		Client: b.client, Concurrency: 1, MaxAttempts: 3, PollInterval: 100 * time.Millisecond,
		Retry: func(*fifo.Job, error) time.Duration { return 0 },
	}
	for _, f := range adjust {
		f(w)
	}
	seats(w)
	return w
}

// A way returns a worker with batches: as each does, or with a BatchHandler that stops at the first error.
type way = func(b *bed, batch fifo.Queue, h fifo.Handler, adjust ...func(*fifo.Worker)) *fifo.Worker

var ways = map[string]way{
	"each": (*bed).each,
	"slice": func(b *bed, batch fifo.Queue, h fifo.Handler, adjust ...func(*fifo.Worker)) *fifo.Worker {
		return b.slice(batch, oneAfterTheOther(h), adjust...)
	},
}

// The jobs of a group go through in order, so many with a transaction.
func TestBatchOfOneGroup(t *testing.T) { overLeases(t, testBatchOfOneGroup) }

func testBatchOfOneGroup(t *testing.T, by lease) {
	pgtest.OverAll(t, ways, func(t *testing.T, work way) {
		b := by.on(newList(t))
		ids := b.send("g", make([]any, 25)...)
		b.work(work(b, fifo.Queue{BatchJobs: 10}, note))
		require.Equal(t, [][]int64{ids[:10], ids[10:20], ids[20:]}, b.batches())
		require.Equal(t, ids, b.ledger.order())
	})
}

// Of several groups a transaction has one job each.
func TestBatchOfGroups(t *testing.T) { overLeases(t, testBatchOfGroups) }

func testBatchOfGroups(t *testing.T, by lease) {
	pgtest.OverAll(t, ways, func(t *testing.T, work way) {
		b := by.on(newList(t))
		var msgs []fifo.Message // in one notice: a later one could split a batch
		for _, g := range []string{"a", `b"\`, "NULL", "{d,'é"} {
			msgs = append(msgs, fifo.Message{Queue: "q", GroupID: g}, fifo.Message{Queue: "q", GroupID: g})
		}
		ids := b.sendAll(msgs...)
		b.work(work(b, fifo.Queue{BatchGroups: 4}, note))
		list := b.batches()
		most := 0
		for _, batch := range list {
			groups := make(map[int64]bool)
			for _, id := range batch {
				groups[(id-ids[0])/2] = true
			}
			require.Len(t, groups, len(batch), "one each: %v", list)
			most = max(most, len(batch))
		}
		require.GreaterOrEqual(t, most, 3, "the first goes to the lane that waits, the others together: %v", list)
		require.Equal(t, 8, query[int](b, "SELECT count(DISTINCT id) FROM list"))
	})
}

func TestBatchTakesWhatIsThere(t *testing.T) {
	b := newList(t)
	w := b.bare(nil)
	var want [][]int64
	for i, batch := range []fifo.Queue{
		{}, {BatchJobs: 1}, {BatchGroups: 1}, {BatchJobs: fifo.MaxBatch}, {BatchGroups: fifo.MaxBatch},
	} {
		queue := fmt.Sprint(i)
		batch.BatchHandler = noteAll
		w.HandleQueue(queue, batch)
		want = append(want, b.sendAll(fifo.Message{Queue: queue, GroupID: "g"}))
	}
	b.work(w)
	require.ElementsMatch(t, want, b.batches())
}

// The first failure stops the group: what was done before it stays done, with what it wrote, the one that failed is
// tried again in its place, and those behind it have not been tried.
func TestBatchStopsAtTheFirstFailure(t *testing.T) { overLeases(t, testBatchStopsAtTheFirstFailure) }

func testBatchStopsAtTheFirstFailure(t *testing.T, by lease) {
	later := fifo.RetryAfter(time.Hour, errOnPurpose)
	bad := func(job *fifo.Job) bool { return string(job.Payload) == "bad" && job.Attempt() == 1 }
	queues := map[string]fifo.Queue{
		"each": {Handler: func(ctx context.Context, job *fifo.Job) error {
			err := note(ctx, job)
			if bad(job) {
				return errors.Join(later, err)
			}
			return err
		}},
		"panic": {Handler: func(ctx context.Context, job *fifo.Job) error {
			err := note(ctx, job)
			if bad(job) {
				panic(later)
			}
			return err
		}},
		"slice": {BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error {
			for i, job := range jobs {
				if bad(job) {
					return fmt.Errorf("wrapped: %w", fifo.BatchError{
						job.ID:       later,
						jobs[i+1].ID: errOnPurpose, // behind it: not counted
					})
				}
				if err := note(ctx, job); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	b := newList(t)
	w := b.bare(nil)
	ids := make(map[string][]int64)
	var first, all [][]int64
	for name, queue := range queues {
		by.on(b, name)
		queue.BatchJobs = 5
		w.HandleQueue(name, queue)
		for _, payload := range []string{"", "", "bad", "", ""} {
			ids[name] = append(ids[name], b.sendAll(fifo.Message{Queue: name, GroupID: name, Payload: payload})...)
		}
		first = append(first, ids[name][:2])
		all = append(all, ids[name][:2], ids[name][2:3], ids[name][3:])
	}
	r := b.run(w)
	await(t, "the failures", func() bool { return w.Stats().Retried == 3 })
	require.ElementsMatch(t, first, b.batches())
	for name, ids := range ids {
		jobs := b.jobsOf(b.client.Queue(name))
		require.Len(t, jobs, 3)
		for i, job := range jobs {
			require.Equal(t, ids[i+2], job.ID)
			require.Equal(t, i == 0, job.Attempts == 1)
			require.Equal(t, i == 0, len(job.Failures) == 1)
			require.Equal(t, i == 0, time.Until(job.RunAt) > 50*time.Minute)
		}
		require.Contains(t, jobs[0].Failures[0].Error, "on purpose")
	}
	b.exec("UPDATE pgfifo.jobs SET run_at = NULL")
	r.finish()
	require.ElementsMatch(t, all, b.batches(), "one that failed runs alone")
	stats := w.Stats()
	require.Equal(t, []int64{15, 3, 0, 0}, []int64{stats.Succeeded, stats.Retried, stats.Buried, stats.Unknown})
}

func TestWhoRunsAlone(t *testing.T) {
	type row struct {
		message fifo.Message
		before  string
	}
	pgtest.OverAll(t, map[string]row{
		"tried once": {fifo.Message{MaxAttempts: 1}, "SELECT 1"},
		"delayed": {
			fifo.Message{Delay: time.Hour},
			"UPDATE pgfifo.jobs SET run_at = statement_timestamp() WHERE run_at IS NOT NULL",
		},
		"failed": {fifo.Message{Payload: "odd"}, "UPDATE pgfifo.jobs SET attempts = 1 WHERE payload = 'odd'"},
	}, func(t *testing.T, x row) {
		b := newList(t)
		w := b.bare(nil)
		ids := make(map[string][]int64)
		for kind, batch := range batches(5) {
			batch.BatchHandler = noteAll
			w.HandleQueue(kind, batch)
			for i, m := range []fifo.Message{{}, {}, x.message, {}, {}} {
				m.Queue, m.GroupID = kind, "g"
				if kind == "groups" {
					m.GroupID = fmt.Sprint(i)
				}
				ids[kind] = append(ids[kind], b.sendAll(m)...)
			}
		}
		b.exec(x.before)
		b.work(w)
		var jobs, groups [][]int64
		for _, batch := range b.batches() {
			if slices.Contains(ids["jobs"], batch[0]) {
				jobs = append(jobs, batch)
			} else {
				groups = append(groups, batch)
			}
		}
		require.Equal(t, [][]int64{ids["jobs"][:2], ids["jobs"][2:3], ids["jobs"][3:]}, jobs)
		require.Contains(t, groups, ids["groups"][2:3])
		require.LessOrEqual(t, len(groups), 3, "the others are not separated by it: %v", groups)
	})
}

// Once a batch was undone its jobs run one at a time, up to the last of them; then there are batches again.
func TestOneAtATimeAfterAFailure(t *testing.T) {
	pgtest.OverAll(t, map[string]string{
		"error": "SELECT 1/0", "commit": "INSERT INTO effects VALUES (1), (1)",
	}, func(t *testing.T, spoil string) {
		b := newList(t)
		b.exec("CREATE TABLE effects (v int, UNIQUE (v) DEFERRABLE INITIALLY DEFERRED)")
		ids := b.send("g", make([]any, 8)...)
		var sizes []int
		b.work(b.slice(fifo.Queue{BatchJobs: 4}, func(ctx context.Context, jobs []*fifo.Job) error {
			sizes = append(sizes, len(jobs))
			for _, job := range jobs {
				if job.ID == ids[1] && job.Attempt() == 1 {
					return execAnyway(ctx, job, spoil)
				}
			}
			return noteAll(ctx, jobs)
		}))
		require.Equal(t, []int{4, 1, 1, 1, 1, 1, 4}, sizes)
		require.Equal(t, []int{1, 2, 1, 1, 1, 1, 1, 1}, b.attempts(ids...))
	})
}

// RunOne works one job, whatever the batch.
func TestRunOneTakesNoBatch(t *testing.T) {
	pgtest.OverAll(t, batches(10), func(t *testing.T, batch fifo.Queue) {
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
