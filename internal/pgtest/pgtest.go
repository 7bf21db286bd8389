// Package pgtest gives tests a real PostgreSQL: one server a test binary, one migrated database a test
// at a time.
//
// A database and not just a schema, because notifications and advisory locks belong to databases.
package pgtest

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/pgserver"
	"github.com/pgfifo/pgfifo/migrations"
)

var (
	start    sync.Once
	server   *pgserver.Server
	admins   *pgxpool.Pool // of the server's own database: a session costs as much as a database
	startErr error
	template string
	count    atomic.Int64
	examples []string // names of databases
)

// waitingTests is how many tests run beside each other for each processor, unless -parallel says so: most of them wait
// most of the time.
const waitingTests = 5

// Main runs a package's tests and stops the server behind them.
func Main(m *testing.M) {
	flag.Parse()
	if n := strconv.Itoa(runtime.GOMAXPROCS(0)); flag.Lookup("test.parallel").Value.String() == n {
		_ = flag.Set("test.parallel", strconv.Itoa(waitingTests*runtime.GOMAXPROCS(0)))
	}
	code := m.Run()
	if server != nil {
		if err := stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pgtest: stop:", err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// URL returns the URL of a new, migrated database, which is dropped when the test ends.
func URL(tb testing.TB) string {
	tb.Helper()
	return create(tb, "")
}

// EmptyURL is URL without the migrations.
func EmptyURL(tb testing.TB) string {
	tb.Helper()
	return create(tb, "template1")
}

// Pool returns a pool on a new, migrated database. Both go when the test ends.
func Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	return Connect(tb, URL(tb))
}

// Connect returns a pool that is closed when the test ends.
func Connect(tb testing.TB, url string) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), url)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

// Conn returns a connection that is closed when the test ends.
func Conn(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// ExamplePool is Pool for an Example, which has no testing.TB and runs alone. The database is dropped by Main, the pool
// is never closed. It panics where there is none.
func ExamplePool() *pgxpool.Pool {
	name, err := createDatabase("")
	if err != nil {
		panic(err)
	}
	examples = append(examples, name)
	pool, err := pgxpool.New(context.Background(), at(name))
	if err != nil {
		panic(err)
	}
	return pool
}

func create(tb testing.TB, from string) string {
	tb.Helper()
	name, err := createDatabase(from)
	require.NoError(tb, err)
	tb.Cleanup(func() {
		if err := admin("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			tb.Errorf("pgtest: %v", err)
		}
	})
	return at(name)
}

func createDatabase(from string) (name string, err error) {
	start.Do(func() { startErr = boot() })
	if startErr != nil {
		return "", startErr
	}
	if from == "" {
		from = template
	}
	name = fmt.Sprintf("pgfifo_test_%d_%d", os.Getpid(), count.Add(1))
	create := "CREATE DATABASE " + name + " TEMPLATE " + from
	if !lasting() { // else its disk may be slow at that
		create += " STRATEGY FILE_COPY" // a third less work than by the log
	}
	return name, admin(create)
}

// boot starts the server and makes the database that the others are copied from.
func boot() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	server, err = pgserver.Start(ctx, &pgserver.Options{
		Settings: map[string]string{
			"shared_buffers": "64MB", "max_connections": "400",
			"autovacuum": "off", // it would start a process for each of a hundred databases, each minute
		},
		Logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, "pgtest: "+format+"\n", args...) },
	})
	if err != nil {
		return err
	}
	if admins, err = pgxpool.New(ctx, server.URL); err != nil {
		return err
	}
	template = fmt.Sprintf("pgfifo_template_%d", os.Getpid())
	if err := admin("CREATE DATABASE " + template); err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, at(template))
	if err != nil {
		return err
	}
	defer pool.Close() // a template is copied only while nobody is connected to it
	if err := migrations.Up(ctx, pool, nil); err != nil {
		return err
	}
	return newerStep(ctx, pool)
}

// newerStep takes a step of a newer release, if PGFIFO_TEST_STEP names its file: all that this release does is to work
// on that schema, too.
func newerStep(ctx context.Context, pool *pgxpool.Pool) error {
	path, ok := os.LookupEnv("PGFIFO_TEST_STEP")
	if !ok {
		return nil
	}
	sql, err := os.ReadFile(path)
	if err == nil {
		_, err = pool.Exec(ctx, string(sql))
	}
	return err
}

// stop stops the server. All databases go with it, unless it is another's.
func stop() error {
	if lasting() && template != "" {
		names := append(examples, template)
		for _, l := range shelf.all {
			names = append(names, l.name)
		}
		for _, name := range names {
			if err := admin("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
				return err
			}
		}
	}
	return server.Close()
}

// lasting reports whether the server goes on when the tests have ended.
func lasting() bool { return server.Source == "url" }

// at returns the server's URL with another database.
func at(database string) string {
	u, err := url.Parse(server.URL)
	if err != nil {
		return server.URL
	}
	u.Path = "/" + database
	return u.String()
}

func admin(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := admins.Exec(ctx, sql)
	return err
}
