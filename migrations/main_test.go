package migrations

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgserver"
)

var (
	server *pgserver.Server
	admins *pgxpool.Pool // of the server's own database: a session costs as much as a database
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	server, err = pgserver.Start(context.Background(), &pgserver.Options{
		Settings: map[string]string{"max_prepared_transactions": "10"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if admins, err = pgxpool.New(context.Background(), server.URL); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := dropExamples(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	admins.Close()
	if err := server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

var databases atomic.Int64

// unique returns a name that no other test of this or another process on the same server has.
func unique() string { return fmt.Sprintf("migrations_%d_%d", os.Getpid(), databases.Add(1)) }

// A database is a test's own, and empty at first; options are those of CREATE DATABASE.
type database struct{ name string }

// newDatabase has the test run beside others.
func newDatabase(t *testing.T) *database {
	t.Helper()
	t.Parallel()
	return createDatabase(t)
}

func createDatabase(t *testing.T, options ...string) *database {
	t.Helper()
	db := &database{unique()}
	admin(t, "CREATE DATABASE "+db.name+" "+strings.Join(options, " "))
	t.Cleanup(func() { admin(t, "DROP DATABASE "+db.name+" WITH (FORCE)") })
	return db
}

// admin runs a statement on the server's own database.
func admin(t *testing.T, sql string) {
	t.Helper()
	// Cleanups run after the test's context is done.
	require.NoError(t, execOnServer(context.WithoutCancel(t.Context()), sql))
}

func execOnServer(ctx context.Context, sql string) error {
	_, err := admins.Exec(ctx, sql)
	return err
}

var examples []string // databases

// EmptyPool returns a pool on a new, empty database, for an Example: that has no *testing.T, and a package of its own.
// Both stay until all of them have ended.
func EmptyPool() (*pgxpool.Pool, error) {
	ctx := context.Background()
	name := unique()
	if err := execOnServer(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	examples = append(examples, name)
	cfg, err := pgxpool.ParseConfig(server.URL)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.Database = name
	return pgxpool.NewWithConfig(ctx, cfg)
}

// dropExamples drops the databases of the examples, and then the roles that ExampleGrant makes.
func dropExamples() error {
	if len(examples) == 0 {
		return nil
	}
	var errs []error
	for _, name := range examples {
		errs = append(errs, execOnServer(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"))
	}
	errs = append(errs, execOnServer(context.Background(), "DROP ROLE IF EXISTS "+
		"pgfifo_example_producer, pgfifo_example_worker, pgfifo_example_reader, pgfifo_example_admin"))
	return errors.Join(errs...)
}

// pool opens a pool of one connection, which must do for a migration, with settings such as "role", "ada".
func (db *database) pool(t *testing.T, settings ...string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(server.URL)
	require.NoError(t, err)
	cfg.ConnConfig.Database = db.name
	cfg.MaxConns = 1
	for i := 0; i < len(settings); i += 2 {
		cfg.ConnConfig.RuntimeParams[settings[i]] = settings[i+1]
	}
	return open(t, cfg)
}

func open(t *testing.T, cfg *pgxpool.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// newPool opens a pool on a new database.
func newPool(t *testing.T) *pgxpool.Pool {
	t.Helper()
	return newDatabase(t).pool(t)
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	_, err := pool.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// begin returns a transaction that has executed a statement. It ends with the test at the latest.
func begin(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return tx
}

// beside does something beside the test, and returns what becomes of it.
func beside(do func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	return done
}

// awaitLock returns when the database's sessions wait as the query says. What is done must not end.
func awaitLock(t *testing.T, db querier, done <-chan error, waits string, args ...any) {
	t.Helper()
	for !query[bool](t, db, waits, args...) {
		select {
		case err := <-done:
			require.FailNow(t, "it did not wait", "%v", err)
		default:
		}
	}
}

// query returns the one value of the one row.
func query[T any](t *testing.T, db querier, sql string, args ...any) T {
	t.Helper()
	var v T
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&v))
	return v
}

// objects lists what there is in a schema, as "kind name"; nil if the schema is not there.
func objects(t *testing.T, db querier, schema string) []string {
	t.Helper()
	return query[[]string](t, db, `
		SELECT array_agg(kind || ' ' || name ORDER BY kind, name) FROM (
			SELECT 'schema', nspname FROM pg_namespace WHERE nspname = $1
			UNION ALL
			SELECT 'relation', relname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = $1
			UNION ALL
			SELECT 'function', proname FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = $1
		) o (kind, name)`, schema)
}

func requireVersion(t *testing.T, pool *pgxpool.Pool, cfg *Config, want int) {
	t.Helper()
	got, err := Version(t.Context(), pool, cfg)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// reach takes the steps to target.
func (m *migrator) reach(ctx context.Context, pool *pgxpool.Pool, target int) error {
	_, err := m.to(ctx, pool, target)
	return err
}
