// Package migrations creates and upgrades the library's tables.
//
//	err := migrations.Up(ctx, pool, nil)
//
// Every process may call Up when it starts: where there is nothing to do it is one read, and where there is, one
// process does it while the others wait. Each step is one transaction, so that a step that fails, or whose process is
// killed, leaves the version before it, and the next Up tries it again.
//
// # Upgrades
//
// A schema at version N serves the release that brought N, and the one before. Processes of both may work on it side
// by side: the schema itself says whom it serves, as the result of its function serves_from, so that the older release
// need not know the newer one. Where it starts again it works, and its Up and Grant leave the schema as it is. A
// release that is too old for the schema, or too new, returns ErrTooNew or ErrTooOld instead of working.
// docs/upgrades.md has the order of deploys, and the way back.
//
// For release N-1 each step keeps this:
//
//   - It only adds: columns that may be null or have a constant default, tables, functions, indexes. The statements
//     of N-1 run unchanged and mean the same; what N-1 inserts is good for N. Nothing gets another name or type or a
//     tighter check.
//   - The step of release N+1 drops what release N needs no longer.
//   - Processes of N-1 neither know a new column nor keep a new rule: a job that they give up or redrive loses what
//     is in such a column. So a value that must not be lost, or a rule that holds only if all processes keep it, is
//     understood by one release and used by the next.
//   - It replaces schema_version and serves_from, up and down; the latter with Latest of the release before. A
//     release has one step at most.
//   - It holds its table locks for milliseconds: no rewrite of a table, no scan of jobs.
//
// # Your own migration tool
//
// FS, GooseFS and AtlasFS return the same steps as files, for golang-migrate, goose and atlas:
//
//	files, err := migrations.GooseFS("") // or of your schema
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName("pgfifo_goose"))
//	source, err := iofs.New(files, ".")         // golang-migrate, of FS
//	err = os.CopyFS("migrations/pgfifo", files) // what a command wants
//
// Give the tool a table of its own for these (x-migrations-table, atlas's --revisions-schema): their versions are not
// those of your migrations. Or copy each file among yours, under a number of yours, and have atlas hash again.
//
// Functions in them have semicolons in their bodies. So GooseFS puts goose's StatementBegin and StatementEnd around
// each direction; the other tools need none.
//
// The files record the version themselves, as the result of the function schema_version in the library's schema, so
// that Version and Check are right whichever tool ran them, and the tools may take turns. It is part of the schema
// and not a row of a table: a dump without data keeps it, and a test that truncates every table does not lose it. No
// other bookkeeping exists, and none of another tool's is touched.
package migrations

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Latest is the version that this release of the library needs. It works with a newer one that serves it, too.
const Latest = 1

// Config says where to migrate, and how. A nil *Config is the zero value, which is good for most.
type Config struct {
	// Schema is the PostgreSQL schema of the library's tables, which Up creates unless it is there. Each schema has
	// a version of its own. The name has up to 63 bytes, does not begin with pg_, and has none of the dollar quotes of
	// the schema's functions in it, as $runs$: it is in the text of these functions, and would end that. Defaults to
	// "pgfifo".
	Schema string

	// LockTimeout is how long a step waits for each of its table locks before it is rolled back and tried again. A step
	// that changes a table waits for every transaction that uses it, that of a running job above all, and whoever needs
	// the table next, an enqueue say, waits behind the step: for at most LockTimeout for each table that the step
	// changes, and while the step works, which is milliseconds unless the release notes say otherwise. The wait for
	// another process that is migrating the same schema is bounded by the context only. Defaults to 2 seconds; a
	// negative one means no limit.
	LockTimeout time.Duration

	// LockTries is how often a step that does not get its locks in time is tried. In between it pauses twice as long as
	// LockTimeout, for those who waited behind it. Defaults to 10, which takes about a minute.
	LockTries int

	// DropJobs lets Down, and To version 0, drop jobs and dead letters. Without it they return ErrNotEmpty while there
	// are any.
	DropJobs bool
}

// Up migrates to Latest. It returns nil if that is done already, or if a newer release went further and the schema
// still serves this one: it leaves that as it is. If the schema does not, Up returns ErrTooNew. It returns ErrNotIntact
// if a restore of the schema has not ended, or if it was renamed.
func Up(ctx context.Context, pool *pgxpool.Pool, cfg *Config) error {
	return To(ctx, pool, Latest, cfg)
}

// Down removes everything, all or nothing. The schema goes too, if nothing is left that depends on it, if the current
// role owns it, and unless it is public. Down returns nil if nothing was migrated, and ErrNotEmpty if there are jobs or
// dead letters, unless Config.DropJobs is set.
func Down(ctx context.Context, pool *pgxpool.Pool, cfg *Config) error {
	return To(ctx, pool, 0, cfg)
}

// To migrates up or down to a version; Latest is Up, and 0, the version before the first step, is Down. It returns
// ErrNoVersion if there is no such version, and ErrTooNew if it is to go down from one that this release doesn't know.
// With Latest it returns ErrNotIntact, too: see Up.
//
// If a step fails, the error names its file and wraps the *pgconn.PgError. Steps up that were taken before it stay, and
// steps down do not. It wraps ErrLocked if the tables were in use for too long: see Config.LockTimeout.
func To(ctx context.Context, pool *pgxpool.Pool, version int, cfg *Config) error {
	m, err := migratorOf(pool, cfg)
	if err == nil && version == 0 {
		err = m.refuse(ctx, pool)
	}
	if err != nil {
		return err
	}
	s, err := m.to(ctx, pool, version)
	if err != nil || version < Latest {
		return err
	}
	return s.intact(m.name)
}

// Version returns the version that the schema is at, whichever tool migrated it; 0 if none did.
func Version(ctx context.Context, pool *pgxpool.Pool, cfg *Config) (int, error) {
	m, err := migratorOf(pool, cfg)
	if err != nil {
		return 0, err
	}
	s, err := readState(ctx, pool, m.name)
	return s.version, err
}
