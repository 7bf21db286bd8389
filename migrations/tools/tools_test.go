package tools

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"testing"

	"ariga.io/atlas/sql/migrate"
	"ariga.io/atlas/sql/postgres"
	golangmigrate "github.com/golang-migrate/migrate/v4"
	migratepgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
	"github.com/pgfifo/pgfifo/migrations"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

const schema = "Weird-Schema"

// A bench is an empty database with a tool's connections.
type bench struct {
	*testing.T
	pool *pgxpool.Pool
	db   *sql.DB
	cfg  *migrations.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	url := pgtest.EmptyURL(t)
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return &bench{t, pgtest.Connect(t, url), db, &migrations.Config{Schema: schema}}
}

func (b *bench) files(of func(string) (fs.FS, error)) fs.FS {
	b.Helper()
	files, err := of(schema)
	require.NoError(b, err)
	return files
}

func (b *bench) at(want int) {
	b.Helper()
	version, err := migrations.Version(b.Context(), b.pool, b.cfg)
	require.NoError(b, err)
	require.Equal(b, want, version)
}

// works has a job go through the tables.
func (b *bench) works() {
	b.Helper()
	b.at(migrations.Latest)
	require.NoError(b, migrations.Up(b.Context(), b.pool, b.cfg), "the library takes its turn")
	b.enqueue()
	client := fifo.Open(b.pool, &fifo.Config{Schema: schema})
	defer func() { _ = client.Close() }()
	w := &fifo.Worker{Client: client}
	w.Handle("q", func(context.Context, *fifo.Job) error { return nil })
	worked, err := w.RunOne(b.Context())
	require.NoError(b, err)
	require.True(b, worked)
}

func (b *bench) enqueue() {
	b.Helper()
	client := fifo.Open(b.pool, &fifo.Config{Schema: schema})
	defer func() { _ = client.Close() }()
	_, err := client.Enqueue(b.Context(), fifo.Message{Queue: "q", GroupID: "g"})
	require.NoError(b, err)
}

// down has a tool go down: with a job that fails and changes nothing, and after TRUNCATE it goes. A job that runs keeps
// it waiting for 2 seconds.
func (b *bench) down(tool func() error) {
	b.Helper()
	b.enqueue()
	require.ErrorContains(b, tool(), "empty it before it is dropped")
	b.at(migrations.Latest)
	_, err := b.pool.Exec(b.Context(), `TRUNCATE "`+schema+`".jobs, "`+schema+`".dead_letters`)
	require.NoError(b, err)
}

func (b *bench) busy() (done func()) {
	b.Helper()
	tx, err := b.pool.Begin(b.Context())
	require.NoError(b, err)
	_, err = tx.Exec(b.Context(), `SELECT FROM "`+schema+`".jobs`)
	require.NoError(b, err)
	return func() { require.NoError(b, tx.Rollback(b.Context())) }
}

func TestGoose(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p, err := goose.NewProvider(goose.DialectPostgres, b.db, b.files(migrations.GooseFS),
		goose.WithTableName("pgfifo_goose"))
	require.NoError(t, err)
	for range 2 {
		_, err = p.Up(t.Context())
		require.NoError(t, err)
	}
	b.works()
	down := func() error {
		_, err := p.DownTo(t.Context(), 0)
		return err
	}
	b.down(down)
	done := b.busy()
	require.ErrorContains(t, down(), "lock timeout")
	done()
	require.NoError(t, down())
	b.at(0)
	_, err = p.Up(t.Context())
	require.NoError(t, err)
	b.works()
}

func TestGolangMigrate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	source, err := iofs.New(b.files(migrations.FS), ".")
	require.NoError(t, err)
	driver, err := migratepgx.WithInstance(b.db, &migratepgx.Config{MigrationsTable: "pgfifo_migrations"})
	require.NoError(t, err)
	m, err := golangmigrate.NewWithInstance("pgfifo", source, "postgres", driver)
	require.NoError(t, err)
	t.Cleanup(func() {
		err1, err2 := m.Close()
		require.NoError(t, errors.Join(err1, err2))
	})
	require.NoError(t, m.Up())
	require.ErrorIs(t, m.Up(), golangmigrate.ErrNoChange)
	b.works()
	b.down(m.Down)
	require.NoError(t, m.Force(migrations.Latest), "that tool wants to be told after a failure")
	done := b.busy()
	require.ErrorContains(t, m.Down(), "lock timeout")
	done()
	require.NoError(t, m.Force(migrations.Latest))
	require.NoError(t, m.Down())
	b.at(0)
	require.NoError(t, m.Up())
	b.works()
}

// The command atlas is not here; what runs the files in it is this module of its.
func TestAtlas(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	path := t.TempDir()
	require.NoError(t, os.CopyFS(path, b.files(migrations.AtlasFS)))
	dir, err := migrate.NewLocalDir(path)
	require.NoError(t, err)
	require.NoError(t, migrate.Validate(dir), "atlas.sum")

	tx, err := b.db.BeginTx(t.Context(), nil) // as atlas migrate apply does, a file at a time
	require.NoError(t, err)
	driver, err := postgres.Open(tx)
	require.NoError(t, err)
	e, err := migrate.NewExecutor(driver, dir, migrate.NopRevisionReadWriter{}, migrate.WithAllowDirty(true))
	require.NoError(t, err)
	require.NoError(t, e.ExecuteN(t.Context(), 0))
	require.NoError(t, tx.Commit())
	b.works()

	require.NoError(t, os.WriteFile(path+"/0001_init.sql", []byte("SELECT 1;\n"), 0o600))
	require.ErrorIs(t, migrate.Validate(dir), migrate.ErrChecksumMismatch)
}
