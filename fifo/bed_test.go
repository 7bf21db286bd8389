package fifo_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A bed is one test's database and client, with a ledger of what its workers do. The ledger is audited when the test
// ends.
type bed struct {
	t      *testing.T
	url    string
	pool   *pgxpool.Pool
	client *fifo.Client
	q      fifo.Scope // queue q
	ledger *ledger
	log    *logFile // of its clients
	by     lease    // of queue q
}

// newBed has the test run beside others.
func newBed(t *testing.T, adjust ...func(*fifo.Config)) *bed {
	t.Helper()
	t.Parallel()
	url, pool := pgtest.Lend(t)
	return bedWith(t, url, pool, adjust...)
}

func bedOn(t *testing.T, url string, adjust ...func(*fifo.Config)) *bed {
	t.Helper()
	return bedWith(t, url, pgtest.Connect(t, url), adjust...)
}

func bedWith(t *testing.T, url string, pool *pgxpool.Pool, adjust ...func(*fifo.Config)) *bed {
	t.Helper()
	b := &bed{t: t, url: url, pool: pool, ledger: newLedger(), log: &logFile{}}
	t.Cleanup(b.tellLog)
	b.client = b.open(b.pool, adjust...)
	b.q = b.client.Queue("q")
	t.Cleanup(b.audit)
	return b
}

// tellLog shows what clients and workers have logged, if the test has failed.
func (b *bed) tellLog() {
	if b.t.Failed() {
		b.t.Log(strings.Join(b.log.lines(""), ""))
	}
}

// open returns another client of the same database and ledger.
func (b *bed) open(pool *pgxpool.Pool, adjust ...func(*fifo.Config)) *fifo.Client {
	b.t.Helper()
	cfg := fifo.Config{
		Logger: slog.New(slog.NewTextHandler(b.log, nil)), Hooks: []fifo.Hooks{{Settled: b.ledger.settle}},
	}
	for _, f := range adjust {
		f(&cfg)
	}
	c := fifo.Open(pool, &cfg)
	b.t.Cleanup(func() { require.NoError(b.t, c.Close()) })
	return c
}

// hooked adds hooks. Their Settled comes behind the ledger's.
func hooked(h fifo.Hooks) func(*fifo.Config) {
	return func(c *fifo.Config) { c.Hooks = slices.Insert(c.Hooks, 0, h) }
}

// audit checks what must hold whatever the test did.
func (b *bed) audit() {
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	require.Empty(b.t, b.ledger.faults)
	if len(b.ledger.sent) == 0 {
		return
	}
	gone := slices.Clone(b.ledger.done)
	for _, s := range b.ledger.settled {
		if s.outcome == fifo.Discarded {
			gone = append(gone, s.job.ID)
		}
	}
	var lost []int64
	err := b.pool.QueryRow(context.Background(), `
		SELECT array_agg(id) FROM unnest($1::bigint[]) AS sent (id)
		WHERE id <> ALL ($2::bigint[])
		  AND NOT EXISTS (SELECT FROM pgfifo.jobs j WHERE j.id = sent.id)
		  AND NOT EXISTS (SELECT FROM pgfifo.dead_letters d WHERE d.id = sent.id)`,
		b.ledger.sent, gone).Scan(&lost)
	require.NoError(b.t, err)
	if b.ledger.count(fifo.Unknown) == 0 { // a commit whose answer was lost may have been made
		require.Empty(b.t, lost, "enqueued, neither done nor there")
	}
}

// send enqueues to a group of queue q, and has the jobs audited.
func (b *bed) send(group string, payloads ...any) []int64 {
	b.t.Helper()
	msgs := make([]fifo.Message, len(payloads))
	for i, p := range payloads {
		msgs[i] = fifo.Message{Queue: "q", GroupID: group, Payload: p}
	}
	return b.sendAll(msgs...)
}

func (b *bed) sendAll(msgs ...fifo.Message) []int64 {
	b.t.Helper()
	ids, err := receipt.IDs(b.client.Enqueue(b.t.Context(), msgs...))
	require.NoError(b.t, err)
	b.ledger.mu.Lock()
	defer b.ledger.mu.Unlock()
	b.ledger.sent = append(b.ledger.sent, ids...)
	return ids
}

// worker returns a quick worker of queue q, which retries at once.
func (b *bed) worker(h fifo.Handler, adjust ...func(*fifo.Worker)) *fifo.Worker {
	b.t.Helper()
	two := func(w *fifo.Worker) { w.Concurrency = 2 }
	w := b.bare(append([]func(*fifo.Worker){two}, adjust...))
	w.Handle("q", b.ledger.record(h))
	return w
}

// A run is a Worker's Run under way.
type run struct {
	*bed
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
}

// run starts a worker. It is stopped when the test ends, and must have ended well then, unless the test looks itself.
func (b *bed) run(w *fifo.Worker) *run {
	b.t.Helper()
	seats(w)
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{bed: b, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		if r.err = w.Run(ctx); r.err != nil {
			_, _ = fmt.Fprintln(b.log, "Run:", r.err)
		}
	}()
	b.t.Cleanup(func() {
		select {
		case <-r.ended:
		default:
			require.NoError(r.t, r.stop())
		}
	})
	return r
}

// stop tells the worker to stop, and returns what Run returned.
func (r *run) stop() error {
	r.t.Helper()
	r.cancel()
	return r.wait()
}

// finish waits until there are no jobs, and stops the worker.
func (r *run) finish() {
	r.t.Helper()
	r.drained()
	require.NoError(r.t, r.stop())
}

func (r *run) wait() error {
	r.t.Helper()
	receive(r.t, r.ended, "the end of Run")
	return r.err
}

// work runs a worker until there are no jobs.
func (b *bed) work(w *fifo.Worker) {
	b.t.Helper()
	b.run(w).finish()
}

// drained waits until there are no jobs.
func (b *bed) drained() {
	b.t.Helper()
	await(b.t, "an empty jobs table", func() bool { return b.count("jobs") == 0 })
}

// unlooked uses a verb on a job that nobody holds, but that a claim may just be looking at.
func (b *bed) unlooked(verb func() error) {
	b.t.Helper()
	await(b.t, "no claim that looks at the group just now", func() bool {
		err := verb()
		if err != nil {
			require.ErrorIs(b.t, err, fifo.ErrJobHeld)
		}
		return err == nil
	})
}

// ends waits until n attempts in a group have ended, and returns how.
func (b *bed) ends(group string, n int) (outcomes []fifo.Outcome) {
	b.t.Helper()
	await(b.t, fmt.Sprint(n, " outcomes in ", group), func() bool {
		outcomes, _, _ = b.ledger.of(group)
		return len(outcomes) >= n
	})
	return outcomes
}

func (b *bed) count(table string) int {
	b.t.Helper()
	return query[int](b, "SELECT count(*) FROM pgfifo."+table)
}

func (b *bed) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}

// query returns the one value of the one row.
func query[T any](b *bed, sql string, args ...any) T {
	b.t.Helper()
	var v T
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&v))
	return v
}

// counted returns how many attempts each job had behind it that was started, in order.
func (b *bed) counted() []int {
	return read(b.ledger, &b.ledger.starts, func(job *fifo.Job) int { return job.Attempts })
}

func (b *bed) jobs() []fifo.Job {
	b.t.Helper()
	return b.jobsOf(b.client)
}

func (b *bed) jobsOf(of lister) []fifo.Job {
	b.t.Helper()
	list, err := of.Jobs(b.t.Context(), fifo.Page{})
	require.NoError(b.t, err)
	return list
}

func (b *bed) deadLetters() []fifo.Job {
	b.t.Helper()
	return b.lettersOf(b.client, fifo.Letters{})
}

func (b *bed) lettersOf(of lister, letters fifo.Letters) []fifo.Job {
	b.t.Helper()
	list, err := of.DeadLetters(b.t.Context(), letters)
	require.NoError(b.t, err)
	return list
}

// only returns the one element of a list.
func only[T any](t *testing.T, list []T) T {
	t.Helper()
	require.Len(t, list, 1)
	return list[0]
}

// holder returns the backend that runs the head of a group of queue q, waiting for one.
func (b *bed) holder(group string) (pid int) {
	b.t.Helper()
	await(b.t, "a holder of "+group, func() bool {
		if b.by == bySession {
			pid = b.keeper(group)
			return pid != 0
		}
		list, err := b.q.Group(group).Groups(b.t.Context(), fifo.Page{}, fifo.Held)
		require.NoError(b.t, err)
		if len(list) == 1 {
			pid = list[0].PID
		}
		return pid != 0
	})
	return pid
}

// second is the error of what returns a value with it.
func second[T any](_ T, err error) error { return err }

// pausing is the error of Pause.
func pausing(_ bool, _ int, err error) error { return err }

// beside does something beside the test, and returns what becomes of it.
func beside(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// patience bounds every wait of a test. Nothing takes that long unless it is broken.
const patience = 30 * time.Second

// await waits for a condition.
func await(t *testing.T, what string, cond func() bool) {
	t.Helper()
	require.True(t, pgtest.Wait(patience, cond), "waited in vain for %s", what)
}

// receive waits for a value, or for the end of a channel.
func receive[T any](t *testing.T, ch <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-ch:
	case <-time.After(patience):
		require.FailNow(t, "waited in vain for "+what)
	}
	return v
}
