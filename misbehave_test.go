package pgfifo_test

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// A misuse is something that a handler should not do to the connection and the tables that are lent to it. It does so
// in its first attempt, after it has written its effect.
type misuse struct {
	do       func(ctx context.Context, tx pgx.Tx, job *fifo.Job) error
	fails    bool   // the attempt fails, and the next one is another
	replaced bool   // the connection is certainly another one afterwards
	leaves   string // what the next handlers on that connection find of it, as in any pool of connections
}

var misuses = map[string]misuse{
	// What lasts for longer than the transaction costs the connection.
	"SET of a session":     {do: statement("SET statement_timeout = '1h'"), replaced: true},
	"SET search_path":      {do: statement("set search_path to pg_catalog"), replaced: true},
	"SET of the isolation": {do: statement("SET default_transaction_isolation = serializable"), replaced: true},
	"SET of the bounds":    {do: statement("SET idle_in_transaction_session_timeout = 0"), replaced: true},
	"read only sessions":   {do: statement("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), replaced: true},
	"SET by bun": {replaced: true, do: func(ctx context.Context, _ pgx.Tx, job *fifo.Job) error {
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "SET statement_timeout = '1h'")
		return err
	}},
	"RESET ALL":      {do: statement("RESET ALL"), replaced: true},
	"LISTEN":         {do: statement("LISTEN news"), replaced: true},
	"SET ROLE":       {do: statement("SET ROLE pg_monitor"), replaced: true},
	"DEALLOCATE ALL": {do: statement("DEALLOCATE ALL"), replaced: true},
	"DISCARD ALL":    {do: statement("DISCARD ALL"), fails: true, replaced: true}, // refused in a transaction
	"DEALLOCATE ALL by pgx": {do: func(ctx context.Context, tx pgx.Tx, _ *fifo.Job) error {
		return tx.Conn().DeallocateAll(ctx)
	}},
	"SET behind another": {do: statement("SELECT 1; SET statement_timeout = '1h'"), replaced: true},
	"SET by a function":  {do: statement("SELECT set_config('statement_timeout', '1h', false)"), replaced: true},
	// What settling puts back need not be noticed. Other things that are not noticed stay, as in any pool.
	"SET that nobody sees": {do: statement("SELECT set_config('statement_timeout', '1h', 1 = 0)")},
	"advisory lock":        {do: statement("SELECT pg_advisory_lock(77)"), leaves: "advisory lock"},
	"temporary table":      {do: statement("CREATE TEMP TABLE IF NOT EXISTS mine (n int)"), leaves: "temporary"},
	// What is for the transaction does no harm.
	"SET LOCAL":                 {do: statement("SET LOCAL search_path = pg_catalog")},
	"SET TRANSACTION READ ONLY": {do: statement("SET TRANSACTION READ ONLY")},
	"UNLISTEN":                  {do: statement("UNLISTEN *")}, // lanes do not listen
	"advisory lock, local":      {do: statement("SELECT pg_advisory_xact_lock(77)")},
	// The library's own tables.
	"LOCK TABLE jobs":         {do: statement("LOCK TABLE pgfifo.jobs IN ACCESS EXCLUSIVE MODE")},
	"LOCK TABLE queue_groups": {do: statement("LOCK TABLE pgfifo.queue_groups IN ACCESS EXCLUSIVE MODE")},
	"its own job deleted":     {do: ofJob("DELETE FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 AND id = $3")},
	"its own job locked": {do: ofJob("SELECT FROM pgfifo.jobs WHERE queue = $1 AND group_id = $2 " +
		"AND id = $3 FOR UPDATE")},
	"its own job updated": {do: ofJob(
		"UPDATE pgfifo.jobs SET payload = payload WHERE queue = $1 AND group_id = $2 AND id = $3")},
	"its own group deleted": {do: ofJob("DELETE FROM pgfifo.queue_groups WHERE queue = $1 AND group_id = $2 " +
		"AND $3 <> 0")},
	"its own group updated": {do: ofJob(
		"UPDATE pgfifo.queue_groups SET created_at = now() WHERE queue = $1 AND group_id = $2 AND $3 <> 0")},
	// The connection itself.
	"connection closed": {fails: true, replaced: true, do: func(ctx context.Context, tx pgx.Tx, _ *fifo.Job) error {
		return tx.Conn().Close(ctx)
	}},
	"socket closed": {fails: true, replaced: true, do: func(_ context.Context, tx pgx.Tx, _ *fifo.Job) error {
		return tx.Conn().PgConn().Conn().Close()
	}},
	"connection hijacked": {fails: true, replaced: true, do: func(_ context.Context, tx pgx.Tx, _ *fifo.Job) error {
		c, err := tx.Conn().PgConn().Hijack()
		if err != nil {
			return err
		}
		return c.Conn.Close()
	}},
	"backend ended by itself": {
		fails: true, replaced: true,
		do: statement("SELECT pg_terminate_backend(pg_backend_pid())"),
	},
}

func statement(sql string) func(context.Context, pgx.Tx, *fifo.Job) error {
	return func(ctx context.Context, tx pgx.Tx, _ *fifo.Job) error {
		_, err := tx.Exec(ctx, sql)
		return err
	}
}

func ofJob(sql string) func(context.Context, pgx.Tx, *fifo.Job) error {
	return func(ctx context.Context, tx pgx.Tx, job *fifo.Job) error {
		_, err := tx.Exec(ctx, sql, job.Queue, job.GroupID, job.ID)
		return err
	}
}

// symptoms tells what of a session is not as the library made it.
const symptoms = `SELECT pg_backend_pid(), concat_ws(', ',
	CASE WHEN current_setting('statement_timeout') <> '0' THEN 'statement_timeout' END,
	CASE WHEN current_setting('idle_in_transaction_session_timeout') = '0' THEN 'no bounds' END,
	CASE WHEN current_setting('search_path') <> '"$user", public' THEN 'search_path' END,
	CASE WHEN current_user <> session_user THEN 'role' END,
	CASE WHEN current_setting('transaction_isolation') <> 'read committed' THEN 'isolation' END,
	CASE WHEN current_setting('transaction_read_only') <> 'off' THEN 'read only' END,
	CASE WHEN EXISTS (SELECT FROM pg_listening_channels()) THEN 'listening' END,
	CASE WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
	THEN 'advisory lock' END,
	CASE WHEN pg_my_temp_schema() <> 0 THEN 'temporary' END)`

// A sight is what one attempt found of its session when it began.
type sight struct {
	job      int64
	attempt  int
	backend  int
	symptoms string
}

// A misuser is a handler that does one.
type misuser struct {
	misuse
	first int64 // the id of the job that has it; 0: that of the first job it is called for

	mu   sync.Mutex
	seen []sight
}

func (h *misuser) handle(ctx context.Context, job *fifo.Job) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	x := sight{job: job.ID, attempt: job.Attempt()}
	if err := tx.QueryRow(ctx, symptoms).Scan(&x.backend, &x.symptoms); err != nil {
		return err
	}
	h.mu.Lock()
	h.seen = append(h.seen, x)
	h.first = cmp.Or(h.first, job.ID)
	h.mu.Unlock()
	_, err = writeEffect(ctx, job)
	if err == nil && job.ID == h.first && job.Attempt() == 1 {
		err = h.do(ctx, tx, job)
	}
	return err
}

// Whatever a handler does to what it is lent: each job has its effect once, its group's later jobs run in order, so do
// those of another queue, and the one lane there is stays of use or is replaced. It is so in a batch, too.
func TestMisuse(t *testing.T) {
	pgtest.OverAll(t, misuses, testMisuse)
}

func testMisuse(t *testing.T, v misuse) {
	s := newSite(t)
	client := fifo.Open(s.Pool, &fifo.Config{Logger: slog.New(slog.NewTextHandler(s.Output(), nil))})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	send := func(queue, group string, n int) []int64 {
		return s.enqueue(slices.Repeat([]fifo.Message{{Queue: queue, GroupID: group}}, n)...)
	}
	want := map[string][]int64{"g": send(queue, "g", 3), "other": send("q2", "other", 2)}
	h := &misuser{misuse: v, first: want["g"][0]}
	w := &fifo.Worker{
		Client: client, Concurrency: 1, MaxAttempts: 4, PollInterval: 100 * time.Millisecond,
		Retry: atOnce,
	}
	w.Handle(queue, h.handle)
	w.Handle("q2", h.handle)
	batched := &misuser{misuse: v}
	w.HandleQueue("batches", fifo.Queue{BatchJobs: 3, Handler: batched.handle})
	stop := background(s.T, w.Run)
	s.drained()
	want["late"] = send(queue, "late", 1)
	s.drained()
	h.check(t)
	// Which of a batch run again, other tests say.
	want["batch"] = send("batches", "batch", 3)
	s.drained()
	want["last"] = send(queue, "last", 1)
	s.drained()
	stop()
	require.Equal(t, want, s.effects())
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.dead_letters"))
}

// check looks at what the attempts saw, of jobs alone.
func (h *misuser) check(t *testing.T) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	attempts, before := 0, 0
	for _, x := range h.seen {
		want := ""
		if before != 0 {
			if h.replaced || h.leaves != "" {
				require.Equal(t, h.replaced, x.backend != before, "%+v", h.seen)
			}
			want = h.leaves
		}
		require.Equal(t, want, x.symptoms, "%+v", h.seen)
		if x.job == h.first {
			attempts++
			before = h.seen[0].backend // there was one lane, with one connection so far
		}
	}
	require.Equal(t, h.fails, attempts == 2, "%+v", h.seen)
}
