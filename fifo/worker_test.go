package fifo_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

func TestInvalidWorker(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	for name, x := range map[string]struct {
		edit func(w *fifo.Worker)
		text string
	}{
		"client": {func(w *fifo.Worker) { w.Client = nil }, "Client is nil"},
		"closed client": {func(w *fifo.Worker) {
			w.Client = b.open(b.pool)
			require.NoError(t, w.Client.Close())
		}, "Client is closed"}, // its handlers would have no transaction, and their jobs would use up their attempts
		"concurrency":   {func(w *fifo.Worker) { w.Concurrency = -1 }, "Concurrency -1"},
		"no server":     {func(w *fifo.Worker) { w.Concurrency = math.MaxInt }, "is over 262143"},
		"no such":       {func(w *fifo.Worker) { w.SessionConcurrency = math.MaxInt }, "SessionConcurrency"},
		"direct":        {func(w *fifo.Worker) { w.Direct = new(pgx.ConnConfig) }, "Direct was not made by"},
		"name":          {func(w *fifo.Worker) { w.Name = "x\x00work_mem\x001MB" }, "Name"},
		"name in bytes": {func(w *fifo.Worker) { w.Name = "\xff" }, "Name"},
		"poll":          {func(w *fifo.Worker) { w.PollInterval = -1 }, "PollInterval -1ns"},
		"idle":          {func(w *fifo.Worker) { w.GroupIdle = -1 }, "GroupIdle -1ns"},
		"silence":       {func(w *fifo.Worker) { w.Silence = time.Millisecond }, "Silence 1ms"},
		"session":       {func(w *fifo.Worker) { w.Silence = time.Hour }, "ServerSilence"},
		"a month":       {func(w *fifo.Worker) { w.ServerSilence = 30 * 24 * time.Hour }, "2147483647 milliseconds"},
		"nanoseconds":   {func(w *fifo.Worker) { w.Heartbeat = 1 }, "Heartbeat 1ns"},
		"heartbeat":     {func(w *fifo.Worker) { w.Heartbeat = -1 }, "negative"},
	} {
		w := b.worker(nop, x.edit)
		err := w.Run(t.Context())
		require.ErrorIs(t, err, fifo.ErrInvalidWorker, name)
		require.ErrorContains(t, err, x.text, name)
		require.Equal(t, err, second(w.RunOne(t.Context())), name)
	}
	w := &fifo.Worker{Client: b.client}
	require.ErrorIs(t, w.Run(t.Context()), fifo.ErrNoHandler)
	require.ErrorIs(t, second(w.RunOne(t.Context())), fifo.ErrNoHandler)
	require.Equal(t, 1, b.count("jobs"))
}

// A worker whose sessions would be in another database than its client's pool works nothing, in neither: not if that
// has no schema, either, and not if the application has all of the pool.
func TestDirectToAnotherDatabase(t *testing.T) {
	b := newBed(t)
	_, other := pgtest.Lend(t)
	b.send("g", nil)
	pool := b.onePool()
	w := &fifo.Worker{Client: b.open(pool), Direct: other.Config().ConnConfig}
	w.Handle("q", nop)
	refused := func() {
		t.Helper()
		require.ErrorIs(t, w.Run(promptly(t)), fifo.ErrInvalidWorker)
		require.ErrorIs(t, second(w.RunOne(promptly(t))), fifo.ErrInvalidWorker)
	}
	refused()
	conn, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	refused()
	w.Direct = b.pool.Config().ConnConfig
	w.Direct.Database = "postgres"
	refused()
	require.Equal(t, 1, b.count("jobs"))
}

// A database in which something is missing is found before a handler runs.
func TestRunMissesATable(t *testing.T) { overLeases(t, testRunMissesATable) }

func testRunMissesATable(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.send("g", nil)
	b.exec("ALTER TABLE pgfifo.dead_letters RENAME TO away")
	w := b.worker(func(context.Context, *fifo.Job) error { panic("it runs") })
	require.ErrorContains(t, w.Run(t.Context()), "prepare pgfifo_bury")
	b.exec("ALTER TABLE pgfifo.away RENAME TO dead_letters")
}

// Queues of one lease keep lanes of that lease, and there must be enough of these.
func TestLanesThatDoNotFit(t *testing.T) {
	type row struct {
		lanes, seats int            // 0: 10 and 100
		keep         map[string]int // by queue; those with an "s" have the lease of a session
		text         string         // "": it runs
	}
	pgtest.OverAll(t, map[string]row{
		"more than there are":      {2, 0, map[string]int{"q": 0, "z": 3}, "3 lanes together, and Concurrency is 2"},
		"more than can be counted": {0, 0, map[string]int{"x": math.MaxInt, "y": math.MaxInt}, "lanes together"},
		"all are kept":             {2, 0, map[string]int{"q": 0, "z": 2}, `for other queues than "q"`},
		"of sessions":              {0, 0, map[string]int{"s": 50}, ""},
		"of both":                  {3, 3, map[string]int{"s": 2, "q": 2}, ""},
		"too few of one":           {10, 100, map[string]int{"s": 8, "q": 11}, `["q"] keep 11 lanes together`},
		"more than sessions have":  {50, 10, map[string]int{"s": 8, "s2": 8}, "and SessionConcurrency is 10"},
	}, func(t *testing.T, x row) {
		b := newBed(t)
		w := &fifo.Worker{Client: b.client, Concurrency: x.lanes, SessionConcurrency: x.seats}
		for queue, keep := range x.keep {
			w.HandleQueue(queue, fifo.Queue{Handler: nop, MinLanes: keep})
			s := fifo.Settings{SessionLease: queue[0] == 's'}
			require.NoError(t, b.client.Queue(queue).Configure(t.Context(), s))
		}
		if x.text == "" {
			b.run(w)
			await(t, "the worker", func() bool { return w.Ready() == nil })
			return
		}
		err := w.Run(t.Context())
		require.ErrorIs(t, err, fifo.ErrInvalidWorker)
		require.ErrorContains(t, err, x.text)
	})
}

func TestHandlePanics(t *testing.T) {
	t.Parallel()
	w := &fifo.Worker{}
	require.Panics(t, func() { w.Handle("", nop) })
	require.Panics(t, func() { w.Handle("a\x00", nop) })
	require.Panics(t, func() { w.Handle("q", nil) })
	w.Handle("q", nop)
	require.Panics(t, func() { w.Handle("q", nop) })
	slice := func(context.Context, []*fifo.Job) error { return nil }
	for name, bad := range map[string]fifo.Queue{
		"no handler":   {},
		"nil JSON":     {Handler: fifo.JSON[int](nil)},
		"two handlers": {Handler: nop, BatchHandler: slice},
		"lanes":        {Handler: nop, MinLanes: 2, MaxLanes: 1},
	} {
		require.Panics(t, func() { w.HandleQueue(name, bad) }, name)
	}
}

func TestErrRunning(t *testing.T) {
	b := newBed(t)
	w := b.worker(nop)
	r := b.run(w)
	b.send("g", nil)
	b.drained()
	require.ErrorIs(t, w.Run(t.Context()), fifo.ErrRunning)
	require.PanicsWithValue(t, "fifo: the worker runs already; queue late comes too late", func() {
		w.Handle("late", nop)
	})
	require.NoError(t, r.stop())
	b.send("g", nil)
	b.work(w) // and again, when it has ended
}

// A worker that cannot have its connections says so at the start, with what to do; every one counts.
func TestErrConnections(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ lanes, limit int }{{5, 3}, {5, 5}, {5, 6}, {1, 1}, {1, 2}} {
		t.Run(fmt.Sprint(x.lanes, " lanes, limit ", x.limit), func(t *testing.T) {
			b := newBed(t)
			role := query[string](b, "SELECT current_database() || '_poor'")
			b.exec(fmt.Sprintf(`CREATE ROLE %s LOGIN PASSWORD 'poor' CONNECTION LIMIT %d;
				GRANT USAGE ON SCHEMA pgfifo TO %s;
				GRANT ALL ON ALL TABLES IN SCHEMA pgfifo TO %s;
				GRANT ALL ON ALL SEQUENCES IN SCHEMA pgfifo TO %s`,
				role, x.limit+1, role, role, role)) // and one for the pool
			t.Cleanup(func() {
				_, err := b.pool.Exec(context.Background(), fmt.Sprintf("DROP OWNED BY %s; DROP ROLE %s", role, role))
				require.NoError(t, err)
			})
			u, err := url.Parse(b.url)
			require.NoError(t, err)
			u.User = url.UserPassword(role, "poor")
			pool := pgtest.Connect(t, u.String())
			require.NoError(t, pool.Ping(t.Context()))
			w := b.worker(nop, func(w *fifo.Worker) { w.Client, w.Concurrency = b.open(pool), x.lanes })
			ctx := promptly(t)
			err = w.Run(ctx)
			require.NoError(t, ctx.Err(), "it runs without what it needs")
			require.ErrorIs(t, err, fifo.ErrConnections)
			require.ErrorContains(t, err, "CONNECTION LIMIT")
			require.ErrorContains(t, err, "beside those of the client's pool; lower Concurrency or the pool's MaxConns")
			require.ErrorContains(t, err, "53300")
		})
	}
}

// A worker goes on when the schema is dropped and made anew under it, as by a restore of a dump with --clean: what its
// sessions have prepared then is of tables that are no more.
func TestSchemaMadeAnew(t *testing.T) { overLeases(t, testSchemaMadeAnew) }

func testSchemaMadeAnew(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.run(b.worker(nop))
	b.send("a", nil)
	b.drained()
	require.NoError(t, migrations.Down(t.Context(), b.pool, &migrations.Config{DropJobs: true}))
	require.NoError(t, migrations.Up(t.Context(), b.pool, nil))
	b.exec("ALTER SEQUENCE pgfifo.jobs_id_seq RESTART 1001") // no id twice, for the ledger
	b.pool.Reset()
	by.on(b)
	for _, group := range []string{"a", "b", "c", "d"} {
		b.send(group, nil)
	}
	b.drained()
}

// Groups take turns, however much one of them has to do.
func TestRoundRobin(t *testing.T) {
	b := newBed(t)
	b.send("hot", make([]any, 100)...)
	b.sendMany("q", 5, 3)
	b.work(b.worker(nop, oneLane))
	hot, cold := 0, 0
	for _, job := range b.ledger.starts {
		if job.GroupID == "hot" {
			hot++
		} else if cold++; cold == 15 {
			break
		}
	}
	require.LessOrEqual(t, hot, 4, "three rounds, and one begun")
}

// A worker whose connections were all ended dials them again.
func TestRedial(t *testing.T) {
	b := newBed(t)
	b.ledger.overlaps = true
	w := b.worker(nop, func(w *fifo.Worker) { w.Name = "redial" })
	b.run(w)
	for i := range 3 {
		b.send(fmt.Sprint(i), nil, nil, nil)
		b.drained()
		await(t, "all connections", func() bool { // the listener comes last
			// A lane that was idle notices when it is to work again: work for all lanes.
			b.sendMany("q", 10, 1)
			b.drained()
			return query[int](b, `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'redial'`) == 4
		})
		b.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name = 'redial'`)
	}
	b.send("last", nil)
	b.drained()
}

// Run leaves no goroutine behind.
func TestNoLeaks(t *testing.T) { //nolint:paralleltest // it looks at all goroutines
	b := bedOn(t, pgtest.URL(t))
	require.NoError(t, b.pool.Ping(t.Context()))
	ignore := goleak.IgnoreCurrent()
	for i := range 2 {
		b.send("g", nil, nil)
		b.work(b.worker(nop, func(w *fifo.Worker) { w.SweepInterval = time.Millisecond }))
		b.runsOne(b.worker(nop))
		b.pool.Reset()
		if i == 0 {
			continue
		}
		require.NoError(t, goleak.Find(ignore,
			goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"),
			goleak.IgnoreAnyFunction("github.com/jackc/puddle/v2.(*Pool[...]).destructAcquiredResource")))
	}
}

// Run leaves no connection open. These are kept, so no finalizer closes one.
func TestRunClosesItsConnections(t *testing.T) { overLeases(t, testRunClosesItsConnections) }

func testRunClosesItsConnections(t *testing.T, by lease) {
	b := by.on(newBed(t))
	var d doors
	pool := b.pooled(func(cfg *pgxpool.Config) {
		d.dial = cfg.ConnConfig.DialFunc
		cfg.ConnConfig.DialFunc = d.through
	})
	b.sendMany("q", 10, 1)
	w := b.worker(nop, func(w *fifo.Worker) { w.Client = b.open(pool) })
	b.work(w)
	pool.Close()
	await(t, "the end of all connections", func() bool { return d.open.Load() == 0 })
	d.mu.Lock() // a connection for a cancel request may be dialed even now
	defer d.mu.Unlock()
	require.NotEmpty(t, d.all)
}

// Doors are connections that are kept, and counted until they are closed.
type doors struct {
	dial pgconn.DialFunc
	open atomic.Int64
	mu   sync.Mutex
	all  []net.Conn
}

type door struct {
	net.Conn

	shut func()
}

func (d *doors) through(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := d.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, conn)
	return &door{conn, sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

func (d *door) Close() error {
	d.shut()
	return d.Conn.Close()
}

// A queue does not wait for another one's backlog, only for a lane.
func TestQueuesTakeTurns(t *testing.T) { overLeases(t, testQueuesTakeTurns) }

func testQueuesTakeTurns(t *testing.T, by lease) {
	b := by.on(newBed(t), "z")
	const backlog = 600
	b.sendMany("q", backlog, 1)
	b.sendAll(fifo.Message{Queue: "z", GroupID: "a"}, fifo.Message{Queue: "z", GroupID: "b"})
	w := b.worker(func(context.Context, *fifo.Job) error {
		<-time.After(time.Millisecond) // its work
		return nil
	}, oneLane)
	ahead := make(chan int, 2)
	w.Handle("z", func(context.Context, *fifo.Job) error {
		ahead <- b.ledger.started()
		return nil
	})
	b.run(w)
	first, second := receive(t, ahead, "a job of the other queue"), receive(t, ahead, "the second")
	t.Logf("behind %d and %d jobs", first, second)
	require.Less(t, second, backlog)
	b.drained()
}

// A lane without work whose session was ended notices within a heartbeat and dials again, before there is work. So does
// the session that holds groups, although it holds none.
func TestIdleLaneDialsAgain(t *testing.T) { overLeases(t, testIdleLaneDialsAgain) }

func testIdleLaneDialsAgain(t *testing.T, by lease) {
	b := by.on(newBed(t))
	ids := b.send("g", nil)
	pids := make(chan int, 2)
	r := b.run(b.worker(func(context.Context, *fifo.Job) error {
		pids <- b.holder("g")
		return nil
	}, oneLane, watchful, rarePolls, func(w *fifo.Worker) { w.Name = "idle" }))
	pid := receive(t, pids, "the first job")
	b.drained()
	const sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() " +
		"AND application_name = 'idle'"
	all := query[int](b, sessions)
	require.NoError(t, b.kill(t.Context(), pid))
	await(t, "another session", func() bool { return query[int](b, sessions) == all })
	ids = append(ids, b.send("g", nil)...)
	require.NotEqual(t, pid, receive(t, pids, "the second job"))
	r.finish()
	require.Equal(t, ids, b.ledger.order(), "once each")
}
