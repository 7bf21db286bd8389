package drivers

import (
	"context"
	"database/sql"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/driver/pgdriver"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// names is an id, and a schema's name, of what a driver that looks for parameters in the text may mistake.
const names = `it's $1 "?0" \$2`

// own is the library's own schema.
const own = "pgfifo"

// drivers open a database each in their way.
var drivers = map[string]func(url string) (*sql.DB, error){
	"pgdriver": func(url string) (*sql.DB, error) {
		return sql.OpenDB(pgdriver.NewConnector(pgdriver.WithDSN(url))), nil
	},
	"lib/pq": func(url string) (*sql.DB, error) { return sql.Open("postgres", url) },
	"pgx":    func(url string) (*sql.DB, error) { return sql.Open("pgx", url) },
}

// kinds are the transactions that a producer may pass.
var kinds = map[string]func(bun.Tx) fifo.Tx{
	"bun.Tx":  func(tx bun.Tx) fifo.Tx { return tx },
	"*bun.Tx": func(tx bun.Tx) fifo.Tx { return &tx },
	"*sql.Tx": func(tx bun.Tx) fifo.Tx { return tx.Tx },
}

// A stand is a client, and a database of bun's with a driver beside it.
type stand struct {
	*testing.T
	client *fifo.Client
	db     *bun.DB
	kind   func(bun.Tx) fifo.Tx
}

func newStand(t *testing.T, driver, schema, kind string) *stand {
	t.Helper()
	url := pgtest.URL(t)
	pool := pgtest.Connect(t, url)
	if schema != own {
		require.NoError(t, migrations.Up(t.Context(), pool, &migrations.Config{Schema: schema}))
	}
	s := &stand{T: t, client: fifo.Open(pool, &fifo.Config{Schema: schema}), kind: kinds[kind]}
	t.Cleanup(func() { require.NoError(t, s.client.Close()) })
	db, err := drivers[driver](url)
	require.NoError(t, err)
	s.db = bun.NewDB(db, pgdialect.New())
	t.Cleanup(func() { require.NoError(t, s.db.Close()) })
	return s
}

// in calls f with a transaction, and commits it.
func (s *stand) in(f func(tx fifo.Tx)) {
	s.Helper()
	tx, err := s.db.BeginTx(s.Context(), nil)
	require.NoError(s, err)
	defer func() { _ = tx.Rollback() }()
	f(s.kind(tx))
	require.NoError(s, tx.Commit())
}

// do calls f with a transaction, and returns what it returns.
func do[T any](s *stand, f func(context.Context, fifo.Tx) (T, error)) (value T) {
	s.Helper()
	s.in(func(tx fifo.Tx) {
		var err error
		value, err = f(s.Context(), tx)
		require.NoError(s, err)
	})
	return value
}

func (s *stand) send(msgs ...fifo.Message) []fifo.Receipt {
	s.Helper()
	return do(s, func(ctx context.Context, tx fifo.Tx) ([]fifo.Receipt, error) {
		return s.client.EnqueueTx(ctx, tx, msgs...)
	})
}

// must is for calls that return an error only.
func (s *stand) must(f func(context.Context, fifo.Tx) error) {
	s.Helper()
	do(s, func(ctx context.Context, tx fifo.Tx) (bool, error) { return true, f(ctx, tx) })
}

func (s *stand) jobs(queue string) []fifo.Job {
	s.Helper()
	return do(s, func(ctx context.Context, tx fifo.Tx) ([]fifo.Job, error) {
		return s.client.Queue(queue).In(tx).Jobs(ctx, fifo.Page{})
	})
}

// every is a message whose parts have every byte that they may have.
func every() fifo.Message {
	payload := make([]byte, 256)
	for i := range payload {
		payload[i] = byte(i)
	}
	return fifo.Message{
		Queue: names, GroupID: `g'"\ ?{é} $1`, Payload: payload,
		Headers: fifo.Headers{`'"\$1 ?`: string(payload), "z": "\n'; DROP TABLE x --"},
	}
}

// Most drivers send parameters. bun's own writes them into the text, as literals; so it does under a *sql.Tx.
func TestDrivers(t *testing.T) {
	for driver := range drivers {
		for kind := range kinds {
			for _, schema := range []string{own, names} {
				t.Run(driver+", "+kind+" in "+schema, func(t *testing.T) {
					t.Parallel()
					s := newStand(t, driver, schema, kind)
					s.enqueues()
					s.verbs()
					s.settings()
				})
			}
		}
	}
}

func (s *stand) enqueues() {
	s.Helper()
	m := every()
	delayed, urgent, named := m, m, m
	delayed.Delay, urgent.Priority, named.DedupID = time.Hour, 3, m.GroupID
	other := fifo.Message{Queue: names, GroupID: "null"}
	s.send(m)
	s.send(delayed)
	s.send(urgent)
	s.send(m, other)
	first := s.send(named, other)
	require.False(s, first[0].Duplicate)
	again := s.send(named, other)
	require.True(s, again[0].Duplicate)
	require.Equal(s, first[0].ID, again[0].ID)
	named.Replace, named.Payload = true, "newer"
	require.True(s, s.send(named)[0].Replaced)

	jobs := s.jobs(names)
	require.Len(s, jobs, 8)
	for _, job := range jobs {
		if job.GroupID == "null" {
			require.Empty(s, job.Payload)
			continue
		}
		require.Equal(s, m.GroupID, job.GroupID)
		require.Equal(s, m.Headers, job.Headers)
		if job.ID == first[0].ID {
			require.Equal(s, "newer", string(job.Payload))
		} else {
			require.Equal(s, m.Payload, job.Payload)
		}
	}
	require.False(s, jobs[1].RunAt.IsZero())
	require.Equal(s, 3, jobs[2].Priority)
}

func (s *stand) verbs() {
	s.Helper()
	q := s.client.Queue(names)
	const reason = "'; \\ $1\n$2 --"
	s.must(func(ctx context.Context, tx fifo.Tx) error {
		_, n, err := q.In(tx).Pause(ctx, reason)
		require.Equal(s, 8, n)
		return err
	})
	pauses, err := s.client.Pauses(s.Context())
	require.NoError(s, err)
	require.Equal(s, reason, pauses[0].Reason)
	require.True(s, do(s, func(ctx context.Context, tx fifo.Tx) (bool, error) { return q.In(tx).Resume(ctx) }))
	status := do(s, func(ctx context.Context, tx fifo.Tx) (fifo.Status, error) {
		return q.Group("null").In(tx).Why(ctx)
	})
	require.Equal(s, fifo.Due, status.State)

	id := s.jobs(names)[1].ID
	s.must(func(ctx context.Context, tx fifo.Tx) error { return q.In(tx).RetryNow(ctx, id) })
	s.must(func(ctx context.Context, tx fifo.Tx) error {
		return q.In(tx).Edit(ctx, id, func(j *fifo.Job) error { j.Payload = []byte{0, 255}; return nil })
	})
	s.must(func(ctx context.Context, tx fifo.Tx) error { return q.In(tx).Bury(ctx, id, reason) })
	dead := do(s, func(ctx context.Context, tx fifo.Tx) ([]fifo.Job, error) {
		return q.In(tx).DeadLetters(ctx, fifo.Letters{Error: "\\ $1\n$2"})
	})
	require.Len(s, dead, 1)
	require.Equal(s, []byte{0, 255}, dead[0].Payload)
	s.must(func(ctx context.Context, tx fifo.Tx) error {
		back, _, err := q.In(tx).Redrive(ctx, fifo.Redrive{Letters: fifo.Letters{IDs: []int64{id}}})
		require.Len(s, back, 1)
		return err
	})
	s.must(func(ctx context.Context, tx fifo.Tx) error { return q.In(tx).Delete(ctx, id) })
	require.Equal(s, 7, do(s, func(ctx context.Context, tx fifo.Tx) (int, error) {
		return q.In(tx).Move(ctx, s.client.Queue("r"))
	}))
	r := s.client.Queue("r")
	depth := do(s, func(ctx context.Context, tx fifo.Tx) (fifo.Depth, error) { return r.In(tx).MeasureUpTo(ctx, 3) })
	require.Equal(s, 3, depth.Jobs)
	require.Equal(s, 7, do(s, func(ctx context.Context, tx fifo.Tx) (int, error) { return r.In(tx).Purge(ctx) }))
}

func (s *stand) settings() {
	s.Helper()
	q, want := s.client.Queue(names), fifo.Settings{Limit: 3, DedupByGroup: true}
	s.must(func(ctx context.Context, tx fifo.Tx) error { return q.In(tx).Configure(ctx, want) })
	got := do(s, func(ctx context.Context, tx fifo.Tx) (fifo.Settings, error) { return q.In(tx).Settings(ctx) })
	require.Equal(s, 3, got.Limit)
	require.True(s, got.DedupByGroup)
}

// The driver itself refuses a server, a database or a role whose settings would make its literals unsafe.
func TestPgdriverRefusesSettings(t *testing.T) {
	for _, set := range []string{"standard_conforming_strings = off", "client_encoding = LATIN1"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, "pgdriver", "", "bun.Tx")
			var name string
			require.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name))
			_, err := s.db.ExecContext(t.Context(), "ALTER DATABASE ? SET "+set, bun.Ident(name))
			require.NoError(t, err)
			s.db.SetMaxIdleConns(0)
			_, err = s.db.BeginTx(t.Context(), nil)
			require.ErrorContains(t, err, "requires that standard_conforming_strings=on and client_encoding=UTF8")
		})
	}
}
