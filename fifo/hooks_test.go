package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func TestPanicInAHook(t *testing.T) {
	fails := map[string]func(){"panic": func() { panic("a value") }, "goexit": runtime.Goexit}
	fail := func(job *fifo.Job, hook string) { // if the job's group says so: the hook, and how
		if at, how, _ := strings.Cut(job.GroupID, ", "); at == hook {
			fails[how]()
		}
	}
	log := &logbook{}
	b := newBed(t, func(cfg *fifo.Config) {
		cfg.Logger = slog.New(log)
	}, hooked(fifo.Hooks{
		Job: func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
			if job.Attempt() == 1 {
				fail(job, "Job")
			}
			return ctx, func(error) { fail(job, "end of Job") }
		},
		Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) { fail(job, "Settled") },
		Overdue: func(_ context.Context, job *fifo.Job, _ time.Duration, _ error) { fail(job, "Overdue") },
	}))
	hooks := map[string]string{
		"Job": "", "end of Job": "end of the Job hook", "Settled": "Settled", "Overdue": "Overdue",
	}
	for hook := range hooks {
		for how := range fails {
			if b.send(hook+", "+how, nil); hook != "Overdue" { // which takes its time
				b.send(hook+", "+how, nil)
			}
		}
	}
	var w *fifo.Worker
	w = b.worker(func(ctx context.Context, job *fifo.Job) error {
		if before := w.Stats().TimesOverdue; strings.HasPrefix(job.GroupID, "Overdue") {
			<-ctx.Done()
			await(t, "a report", func() bool { return w.Stats().TimesOverdue > before })
		}
		return nil
	}, oneLane, func(w *fifo.Worker) { w.JobTimeout = 500 * time.Millisecond })
	b.work(w)
	require.EqualValues(t, 3*2*2+2, w.Stats().Succeeded)
	for hook, name := range hooks {
		for how := range fails {
			outcomes, errs, order := b.ledger.of(hook + ", " + how)
			if hook != "Job" {
				value := map[string]string{"panic": "a value", "goexit": "the " + name + "'s goroutine exited"}[how]
				require.NotContains(t, outcomes, fifo.Retried, hook)
				require.Positive(t, log.count("pgfifo: a hook panicked hook="+name+" panic="+value), "%q", log.lines)
				continue
			}
			require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded, fifo.Retried, fifo.Succeeded}, outcomes)
			require.Len(t, order, 2, "the handler is not called in the first attempts")
			p := (*fifo.PanicError)(nil)
			require.ErrorAs(t, errs[0], &p)
			require.NotEmpty(t, p.Stack)
			if how == "panic" {
				require.EqualError(t, p, "fifo: Job hook panicked: a value")
			}
		}
	}
}

// A dead letter of a job whose Job hook panics says so.
func TestPanicInTheJobHookIsRecorded(t *testing.T) { overLeases(t, testPanicInTheJobHookIsRecorded) }

func testPanicInTheJobHookIsRecorded(t *testing.T, by lease) {
	b := by.on(newBed(t, hooked(fifo.Hooks{
		Job: func(context.Context, *fifo.Job) (context.Context, func(error)) { panic("a value") },
	})))
	b.send("g", nil)
	b.work(b.worker(nop, func(w *fifo.Worker) { w.MaxAttempts = 1 }))
	letter := only(t, b.deadLetters())
	require.Equal(t, fifo.KindPanic, letter.Failures[0].Kind)
	require.Equal(t, "fifo: Job hook panicked: a value", letter.Failures[0].Error)
	require.Contains(t, letter.Failures[0].Stack, "hooks_test.go")
}

// A panic before an enqueue is its error, with which the hooks that began before it come to their end; one after it is
// logged, and the ids are returned.
func TestPanicInTheEnqueueHook(t *testing.T) {
	log := &logbook{}
	before, value := true, errors.New("a value")
	var ends []error
	b := newBed(t, func(c *fifo.Config) { c.Logger = slog.New(log) }, hooked(fifo.Hooks{
		Enqueue: func(ctx context.Context, _ []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			if before {
				panic(value)
			}
			return ctx, func([]fifo.Receipt, error) { panic(value) }
		},
	}), hooked(fifo.Hooks{
		Enqueue: func(ctx context.Context, _ []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			return ctx, func(_ []fifo.Receipt, err error) { ends = append(ends, err) }
		},
	}))
	msg := fifo.Message{Queue: "q", GroupID: "g"}
	ids, err := b.client.Enqueue(t.Context(), msg)
	require.ErrorIs(t, err, value)
	require.ErrorAs(t, err, new(*fifo.PanicError))
	require.Empty(t, ids)
	require.Equal(t, []error{err}, ends)
	require.Zero(t, b.count("jobs"))

	before = false
	ids = b.receipts(msg)
	require.Len(t, ids, 1)
	require.Equal(t, 1, b.count("jobs"))
	require.Equal(t, 1, log.count("pgfifo: a hook panicked hook=end of the Enqueue hook panic=a value"), "%q",
		log.lines)
}

// A lane that loses its connection while a Settled hook runs does not start the job that it has claimed meanwhile:
// another worker may have that.
func TestConnectionLostInAHook(t *testing.T) {
	var b *bed
	var first *fifo.Worker
	var ids []int64
	h, ended := newBlocking(), make(chan struct{})
	b = newBed(t, hooked(fifo.Hooks{Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
		if job.ID != ids[0] {
			return
		}
		held := b.groups(b.q.Group("g"), fifo.Page{}, fifo.Held)
		if len(held) == 0 || !strings.Contains(held[0].ApplicationName, "first") { // it is given back by now
			close(ended)
			return
		}
		b.exec("SELECT pg_terminate_backend($1)", held[0].PID)
		receive(t, h.started, "the start of the next job elsewhere")
		await(t, "heartbeats behind the end of the session", func() bool {
			return query[bool](b, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND xact_start < clock_timestamp() - interval '1 s')`)
		})
		close(ended)
	}}))
	ids = b.send("g", nil, nil)
	quick := func(w *fifo.Worker) {
		w.Heartbeat, w.Silence, w.ServerSilence = 100*time.Millisecond, time.Second, 3500*time.Millisecond
	}
	work := func(ctx context.Context, job *fifo.Job) error {
		if job.ID != ids[1] {
			return nil
		}
		return h.handle(ctx, job)
	}
	first = b.worker(work, oneLane, quick, func(w *fifo.Worker) { w.Name = "first" })
	b.run(first)
	await(t, "the first job", func() bool { return first.Stats().Succeeded == 1 })
	b.run(b.worker(work, oneLane, quick))
	receive(t, ended, "the end of the hook")
	b.send("other", nil)
	b.ends("other", 1) // by the lane; that of the second worker has the second job
	close(h.release)
	b.drained()
	require.Len(t, b.ledger.order(), 3, "each once")
}

// What the Job hook puts into the context is there until the attempt is settled, for each job of a batch, too.
func TestSettledHasTheJobHooksValues(t *testing.T) { overLeases(t, testSettledHasTheJobHooksValues) }

func testSettledHasTheJobHooksValues(t *testing.T, by lease) {
	type key struct{}
	seen := make(chan [2]int64, 100)
	var names []string
	b := newBed(t, hooked(fifo.Hooks{
		Job: func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
			return context.WithValue(ctx, key{}, job.ID), nil
		},
		Settled: func(ctx context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
			require.NoError(t, ctx.Err())
			id, _ := ctx.Value(key{}).(int64)
			seen <- [2]int64{job.ID, id}
		},
	}))
	w := b.bare(nil)
	for kind, batch := range oneAndBatches(3) {
		batch.Handler = nop
		w.HandleQueue(kind, batch)
		batch.Handler, batch.BatchHandler = nil, oneAfterTheOther(nop)
		w.HandleQueue(kind+", slice", batch)
		names = append(names, kind, kind+", slice")
		for i := range 3 {
			group := string(rune('a' + i%(1+batch.BatchGroups)))
			b.sendAll(fifo.Message{Queue: kind, GroupID: group}, fifo.Message{Queue: kind + ", slice", GroupID: group})
		}
	}
	by.on(b, names...)
	b.work(w)
	require.Len(t, seen, 3*len(names))
	for range 3 * len(names) {
		ids := <-seen
		require.Equal(t, ids[0], ids[1])
	}
}

func TestWorkerHasOneName(t *testing.T) {
	b := newBed(t)
	b.client = b.open(b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.RuntimeParams["application_name"] = "of the pöl"
	}))
	long := strings.Repeat("n", 63)
	for name, want := range map[string]string{
		"": "of the p??l", "its own": "its own", "its öwn": "its ??wn", long + " tail": long,
	} {
		id := b.send("g", nil)[0]
		var session, shown string
		require.True(t, b.runsOne(b.worker(func(ctx context.Context, job *fifo.Job) error {
			tx, err := job.PgxTx(ctx)
			if err == nil {
				err = tx.QueryRow(ctx, `SELECT current_setting('application_name'), application_name
					FROM pg_stat_activity WHERE pid = pg_backend_pid()`).Scan(&session, &shown)
			}
			return errors.Join(err, fifo.DeadLetter(errOnPurpose))
		}, func(w *fifo.Worker) { w.Name = name })))
		require.Equal(t, want, session)
		require.Equal(t, want, shown)
		require.Equal(t, want, only(t, b.lettersOf(b.q, named(id))).Failures[0].Worker)
	}
}

// Several hooks are called in order before, and in the opposite order after. What one returns the next one gets, and
// what it makes of the messages is enqueued: the caller's are as they were.
func TestHooksAreAList(t *testing.T) {
	type key struct{}
	var mu sync.Mutex
	var calls []string
	call := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, s)
	}
	hooks := func(name string) fifo.Hooks {
		with := func(ctx context.Context) context.Context {
			before, _ := ctx.Value(key{}).(string)
			return context.WithValue(ctx, key{}, before+name)
		}
		return fifo.Hooks{
			Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
				call("enqueue " + name)
				before, _ := msgs[0].Payload.(string)
				msgs[0].Payload = before + name
				return with(ctx), func(receipts []fifo.Receipt, _ error) {
					call(fmt.Sprintf("enqueued %d %s", len(receipts), name))
				}
			},
			Job: func(ctx context.Context, _ *fifo.Job) (context.Context, func(error)) {
				call("job " + name)
				return with(ctx), func(error) { call("end " + name) }
			},
			Settled: func(ctx context.Context, _ *fifo.Job, outcome fifo.Outcome, _ error) {
				call(fmt.Sprint(outcome, ctx.Value(key{}), name))
			},
		}
	}
	b := newBed(t, func(c *fifo.Config) { c.Hooks = append(c.Hooks, hooks("1"), fifo.Hooks{}, hooks("2")) })
	msgs := []fifo.Message{{Queue: "q", GroupID: "g", Payload: "0"}}
	b.sendAll(msgs...)
	require.Equal(t, "0", msgs[0].Payload)
	w := b.worker(func(ctx context.Context, job *fifo.Job) error {
		call(fmt.Sprint("handler ", ctx.Value(key{}), " ", string(job.Payload)))
		return nil
	})
	b.work(w)
	require.Equal(t, []string{
		"enqueue 1", "enqueue 2", "enqueued 1 2", "enqueued 1 1",
		"job 1", "job 2", "handler 12 012", "end 2", "end 1",
		"succeeded122", "succeeded121",
	}, calls)
}

// A hook may write headers, whatever the hook before it has made of them.
func TestEnqueueHooksHaveHeaders(t *testing.T) {
	hook := func(do func(*fifo.Message)) func(*fifo.Config) {
		return hooked(fifo.Hooks{
			Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
				do(&msgs[0])
				return ctx, nil
			},
		})
	}
	b := newBed(t, // each goes before those that are there
		hook(func(m *fifo.Message) { m.Headers["b"] = "2" }),
		hook(func(m *fifo.Message) { m.Headers = nil }))
	b.receipts(fifo.Message{Queue: "q", GroupID: "g", Headers: fifo.Headers{"a": "1"}})
	jobs, err := b.client.Jobs(t.Context(), fifo.Page{})
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, fifo.Headers{"b": "2"}, jobs[0].Headers)
}

func TestSettledHasTheValuesOfTheAbandoned(t *testing.T) {
	type key struct{}
	h := newStubborn()
	seen := make(chan [3]any, 100)
	b := newBed(t, hooked(fifo.Hooks{
		Job: func(ctx context.Context, job *fifo.Job) (context.Context, func(error)) {
			if job.GroupID == "in the hook" {
				_ = h.handle(ctx, job)
			}
			return context.WithValue(ctx, key{}, job.ID), nil
		},
		Settled: func(ctx context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
			seen <- [3]any{job.ID, ctx.Value(key{}), ctx.Err()}
		},
	}))
	w := &fifo.Worker{Client: b.client, Concurrency: 4, DrainTimeout: -1, AbandonAfter: 20 * time.Millisecond}
	var want []any
	for _, jobs := range []int{1, 2} {
		queue := fmt.Sprint(jobs)
		w.HandleQueue(queue, fifo.Queue{
			BatchJobs: jobs,
			BatchHandler: func(ctx context.Context, jobs []*fifo.Job) error {
				return h.handle(ctx, jobs[0])
			},
		})
		for range jobs {
			ids := b.sendAll(fifo.Message{Queue: queue, GroupID: "in the hook"},
				fifo.Message{Queue: queue, GroupID: "in the handler"})
			want = append(want, [3]any{ids[0], nil, nil}, [3]any{ids[1], ids[1], nil})
		}
	}
	r := b.run(w)
	for range 4 {
		receive(t, h.started, "the handler, or the hook")
	}
	require.ErrorIs(t, r.stop(), fifo.ErrDrainTimeout)
	var got []any
	for range want {
		got = append(got, receive(t, seen, "what Settled saw"))
	}
	require.ElementsMatch(t, want, got)
	close(h.release)
	await(t, "the end of the handlers", func() bool { return w.Stats().Abandoned == 0 })
}
