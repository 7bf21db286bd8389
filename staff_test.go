package pgfifo_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

// A staff is a database with a schema of the library's, and a login for each of the four roles, and one for none.
type staff struct {
	*pgtest.DB // of the owner, who migrated
	schema     string
	roles      migrations.Roles
	logs       *logbook
}

const outsider = "outsider" // the login that is a member of no role

// newStaff has the test run beside others.
func newStaff(t *testing.T, schema string) *staff {
	t.Helper()
	t.Parallel()
	s := &staff{DB: pgtest.At(t, pgtest.URL(t)), schema: schema, logs: &logbook{}}
	db := pgtest.One[string](s.DB, "SELECT current_database()")
	s.roles = migrations.Roles{ // the names of roles are the whole cluster's
		Producer: db + "-producer", Worker: db + "-worker", Reader: db + "-reader", Admin: db + "-admin",
	}
	t.Cleanup(s.dismiss)
	cfg := &migrations.Config{Schema: schema}
	require.NoError(t, migrations.Up(t.Context(), s.Pool, cfg))
	require.NoError(t, migrations.Grant(t.Context(), s.Pool, s.roles, cfg))
	for _, role := range s.all() {
		s.exec("CREATE ROLE " + ident(login(role)) + " LOGIN PASSWORD 'meager' CONNECTION LIMIT 30")
		s.exec("GRANT " + ident(role) + " TO " + ident(login(role)))
	}
	s.exec("CREATE ROLE " + ident(db+"-"+outsider+".login") + " LOGIN PASSWORD 'meager'")
	return s
}

func (s *staff) all() []string {
	return []string{s.roles.Producer, s.roles.Worker, s.roles.Reader, s.roles.Admin}
}

func login(role string) string { return role + ".login" }

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

// dismiss drops the roles; a database's end does not.
func (s *staff) dismiss() {
	ctx := context.Background()
	rows, err := s.Pool.Query(ctx, "SELECT rolname FROM pg_roles WHERE rolname LIKE current_database() || '-%'")
	require.NoError(s, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s, err)
	for _, name := range names {
		_, err := s.Pool.Exec(ctx, "DROP OWNED BY "+ident(name))
		require.NoError(s, err)
		_, err = s.Pool.Exec(ctx, "DROP ROLE "+ident(name))
		require.NoError(s, err)
	}
}

func (s *staff) exec(sql string, args ...any) {
	s.Helper()
	s.Exec(s.sql(sql), args...)
}

// begin returns a transaction in which a statement was executed. It ends with the test at the latest.
func (s *staff) begin(pool *pgxpool.Pool, sql string, args ...any) pgx.Tx {
	s.Helper()
	tx, err := pool.Begin(s.Context())
	require.NoError(s, err)
	s.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(s.Context(), s.sql(sql), args...)
	require.NoError(s, err)
	return tx
}

// sql is a statement with the schema in the place of "pgfifo".
func (s *staff) sql(sql string) string {
	if s.schema == "" {
		return sql
	}
	return strings.NewReplacer("'pgfifo.", "'"+strings.ReplaceAll(ident(s.schema)+".", "'", "''"),
		"pgfifo.", ident(s.schema)+".", "SCHEMA pgfifo", "SCHEMA "+ident(s.schema)).Replace(sql)
}

func (s *staff) number(sql string, args ...any) int {
	s.Helper()
	return pgtest.One[int](s.DB, s.sql(sql), args...)
}

// as returns a pool of a role's login.
func (s *staff) as(role string) *pgxpool.Pool {
	s.Helper()
	u, err := url.Parse(s.URL)
	require.NoError(s, err)
	if role == outsider {
		role = strings.TrimPrefix(u.Path, "/") + "-" + outsider
	}
	u.User = url.UserPassword(login(role), "meager")
	return pgtest.Connect(s, u.String())
}

// client returns a client of a role's login. What it says goes to s.logs.
func (s *staff) client(pool *pgxpool.Pool, adjust ...func(*fifo.Config)) *fifo.Client {
	s.Helper()
	cfg := fifo.Config{Schema: s.schema, Logger: slog.New(s.logs.handler(slog.LevelDebug))}
	for _, f := range adjust {
		f(&cfg)
	}
	c := fifo.Open(pool, &cfg)
	s.Cleanup(func() { require.NoError(s, c.Close()) })
	return c
}

// work runs a worker until a condition holds, and requires that it ended well.
func (s *staff) work(w *fifo.Worker, what string, done func() bool) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	well := pgtest.Wait(3*patience, func() bool {
		select {
		case err := <-ended:
			require.FailNow(s, "the worker has ended", "%v", err)
		default:
		}
		return done()
	})
	require.True(s, well, "waited in vain for %s: %+v\n%s", what, w.Stats(), s.logs)
	cancel()
	require.NoError(s, <-ended)
}

// A logbook is what was logged.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *logbook) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *logbook) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func (j *logbook) handler(level slog.Level) slog.Handler {
	return slog.NewTextHandler(j, &slog.HandlerOptions{Level: level})
}

// pausing is the error of Pause.
func pausing(_ bool, _ int, err error) error { return err }
