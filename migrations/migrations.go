// Package migrations creates and upgrades the library's tables.
//
//	err := migrations.Up(ctx, pool, nil)
//
// Every process may call Up when it starts: where there is nothing to do it is one read, and where there is, one
// process does it while the others wait. Each step is one transaction, so that a step that fails, or whose process is
// killed, leaves the version before it, and the next Up tries it again.
//
// # Your own migration tool
//
// FS returns the same steps as files. golang-migrate runs them as they are. goose and tern want both directions in
// one file: put the two together, under "-- +goose Up" and "-- +goose Down", or around tern's "---- create above /
// drop below ----". Have your tool set lock_timeout to a second or two, and try again after a pause: a step that
// waits for a running job holds up the enqueues behind it.
//
// One function in them has semicolons in its body, and is between goose's marks for that. Other tools pass over those.
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

// Latest is the version that this release of the library works with.
const Latest = 1

// Config says where to migrate, and how. A nil *Config is the zero value, which is good for most.
type Config struct {
	// Schema is the PostgreSQL schema of the library's tables, which Up creates unless it is there. Each schema has
	// a version of its own. Defaults to "pgfifo".
	Schema string

	// LockTimeout is how long a step waits for each of its table locks before it is rolled back and tried again. A step
	// that changes a table waits for every transaction that uses it, that of a running job above all, and whoever needs
	// the table next, an enqueue say, waits behind the step: for at most LockTimeout for each table that the step
	// changes, and while the step works, which is milliseconds unless the release notes say otherwise. The wait for
	// another process that is migrating the same schema is bounded by the context only. Defaults to 2 seconds; a
	// negative one means no limit.
	LockTimeout time.Duration

	// LockTries is how often a step is tried that does not get its locks in time. In between it pauses twice as long as
	// LockTimeout, for those who waited behind it. Defaults to 10, which takes about a minute.
	LockTries int
}

// Up migrates to Latest. It returns nil if that is done already, and ErrTooNew if a newer release went further.
func Up(ctx context.Context, pool *pgxpool.Pool, cfg *Config) error {
	return To(ctx, pool, Latest, cfg)
}

// Down removes everything, the jobs included. The schema goes too, if nothing is left that depends on it, if the
// current role owns it, and unless it is public. Down returns nil if nothing was migrated.
func Down(ctx context.Context, pool *pgxpool.Pool, cfg *Config) error {
	return To(ctx, pool, 0, cfg)
}

// To migrates up or down to a version, step by step; 0 is the version before the first step, as Down. It returns
// ErrNoVersion if there is no such version, and ErrTooNew if the schema is at one that this release doesn't know.
//
// If a step fails, the error names its file and wraps the *pgconn.PgError, and the steps before it stay. It wraps
// ErrLocked if the tables were in use for too long: see Config.LockTimeout.
func To(ctx context.Context, pool *pgxpool.Pool, version int, cfg *Config) error {
	m, err := newMigrator(files, cfg)
	if err != nil {
		return err
	}
	return m.to(ctx, pool, version)
}

// Version returns the version that the schema is at, whichever tool migrated it; 0 if none did.
func Version(ctx context.Context, pool *pgxpool.Pool, cfg *Config) (int, error) {
	name, err := cfg.name()
	if err != nil {
		return 0, err
	}
	return readVersion(ctx, pool, name)
}
