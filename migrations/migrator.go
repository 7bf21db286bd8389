package migrations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/schema"
)

const (
	defaultLockTimeout = 2 * time.Second
	defaultLockTries   = 10
)

// A migrator moves one schema from version to version.
type migrator struct {
	name        schema.Name
	steps       []step
	lockTimeout time.Duration // for each lock; negative: none
	lockTries   int
	dropJobs    bool
}

// migratorOf returns a migrator for the steps of this release, unless there is no pool to use it with.
func migratorOf(pool *pgxpool.Pool, cfg *Config) (*migrator, error) {
	m, err := newMigrator(files, cfg)
	if err == nil && pool == nil {
		err = errNoPool
	}
	return m, err
}

func newMigrator(fsys fs.FS, cfg *Config) (*migrator, error) {
	c := cmp.Or(cfg, &Config{})
	name, err := parse(c.Schema)
	if err != nil {
		return nil, err
	}
	if c.LockTries < 0 {
		return nil, fmt.Errorf("%w: LockTries %d is negative", ErrConfig, c.LockTries)
	}
	steps, err := load(fsys)
	return &migrator{
		name, steps, cmp.Or(c.LockTimeout, defaultLockTimeout), cmp.Or(c.LockTries, defaultLockTries), c.DropJobs,
	}, err
}

func parse(name string) (schema.Name, error) {
	n, err := schema.Parse(name)
	if err != nil {
		return n, fmt.Errorf("%w: Schema: %w", ErrConfig, err)
	}
	return n, nil
}

// to takes the steps from the version found to target, if any, and returns what is there then.
func (m *migrator) to(ctx context.Context, pool *pgxpool.Pool, target int) (s state, err error) {
	if target < 0 || target > len(m.steps) {
		return s, fmt.Errorf("%w: %d, this release has 0 to %d", ErrNoVersion, target, len(m.steps))
	}
	// Read without the lock, so that a process with nothing to do waits for nobody, and needs no right to write.
	s, err = readState(ctx, pool, m.name)
	for err == nil && s.version != target {
		if s.version > len(m.steps) {
			return s, m.newer(s, target)
		}
		s, err = m.tryStep(ctx, pool, target)
	}
	return s, err
}

// newer returns the error of a target where a newer release has taken steps that this one does not have. If target is
// the last step that it has, nothing is left to do, if the schema still serves this release.
func (m *migrator) newer(s state, target int) error {
	if target == len(m.steps) {
		return s.check(m.name, target)
	}
	return fmt.Errorf("%w: schema %q is at version %d, this release has the steps up to %d: "+
		"go down with the release that went up", ErrTooNew, m.name, s.version, len(m.steps))
}

// refuse returns ErrNotEmpty if jobs would be dropped unasked. It waits for nobody, and comes before any step. The last
// file to go down looks again, when nobody can add any.
func (m *migrator) refuse(ctx context.Context, pool *pgxpool.Pool) error {
	s, err := readState(ctx, pool, m.name)
	if err != nil || m.dropJobs || s.version == 0 || s.version > len(m.steps) {
		return err
	}
	const sql = "SELECT EXISTS (SELECT FROM pgfifo.jobs) OR EXISTS (SELECT FROM pgfifo.dead_letters)"
	var left bool
	err = pool.QueryRow(ctx, m.name.Qualify(sql)).Scan(&left)
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.Code == "42P01" {
		return nil // another Down has dropped the tables since
	}
	if err != nil {
		return fmt.Errorf("migrations: look for jobs in schema %q: %w", m.name, err)
	}
	if left {
		return fmt.Errorf("%w: schema %q", ErrNotEmpty, m.name)
	}
	return nil
}

// tryStep takes one step, as soon as its tables are free.
func (m *migrator) tryStep(ctx context.Context, pool *pgxpool.Pool, target int) (state, error) {
	for n := 1; ; n++ {
		s, err := m.step(ctx, pool, target)
		if !inUse(err) {
			return s, err
		}
		if n >= m.lockTries {
			return s, fmt.Errorf("%w: after %d tries: %w", ErrLocked, n, err)
		}
		if ended := pause.For(ctx, 2*m.lockTimeout); ended != nil { // for those who waited behind the step
			return s, fmt.Errorf("%w: %w: %w", ErrLocked, ended, err)
		}
	}
}

// inUse reports whether a step was rolled back for its locks: they did not come in time, or would have been a deadlock.
func inUse(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "40P01")
}

// readCommitted is what transactions are, whatever the server's defaults. What is read after the wait for the lock must
// be what the process that held it left, and not what was there before.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}

// step takes one step up towards target, or all of them down, so that what refuses to go down leaves all as it was. It
// returns what it leaves; another process may have got there meanwhile, or further.
func (m *migrator) step(ctx context.Context, pool *pgxpool.Pool, target int) (s state, err error) {
	tx, err := pool.BeginTx(ctx, readCommitted)
	if err != nil {
		return s, fmt.Errorf("migrations: begin: %w", err)
	}
	defer tx.Rollback(ctx)
	if err := m.lock(ctx, tx); err != nil {
		return s, err
	}
	if s, err = readState(ctx, tx, m.name); err != nil || s.version > len(m.steps) {
		return s, err
	}
	if s.version < target {
		s, err = m.up(ctx, tx, s.version+1)
	}
	for err == nil && s.version > target {
		s, err = m.down(ctx, tx, s.version-1)
	}
	if err != nil {
		return s, err
	}
	if err := tx.Commit(ctx); err != nil {
		return s, fmt.Errorf("migrations: commit version %d: %w", s.version, err)
	}
	return s, nil
}

// lock keeps other migrators of the schema out until tx ends, and then limits the waits for table locks.
func (m *migrator) lock(ctx context.Context, tx pgx.Tx) error {
	// Limits that the role or the database has are meant for the application's statements, not for these.
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0"); err != nil {
		return fmt.Errorf("migrations: set timeouts: %w", err)
	}
	// An advisory lock, because there may be no table yet, and of the transaction, because it must not outlive a
	// process, nor stay behind on a pooler's connection.
	if _, err := tx.Exec(ctx, lockSQL, m.name.String()); err != nil {
		return fmt.Errorf("migrations: wait for other migrators of schema %q: %w", m.name, err)
	}
	const limit = "SELECT set_config('lock_timeout', $1::text, true)"
	if _, err := tx.Exec(ctx, limit, lockSetting(m.lockTimeout)); err != nil {
		return fmt.Errorf("migrations: set timeouts: %w", err)
	}
	return nil
}

// lockSetting returns a value of the server's setting lock_timeout: milliseconds, of which 0 are no limit.
func lockSetting(timeout time.Duration) string {
	if timeout < 0 {
		return "0"
	}
	// Rounded up, lest half a millisecond become none, and with it no limit.
	ms := (int64(timeout-1) / int64(time.Millisecond)) + 1
	return strconv.FormatInt(min(ms, math.MaxInt32), 10)
}

// lockSQL must never change: releases of the library that run at the same time keep each other out by it.
const lockSQL = "SELECT pg_advisory_xact_lock(hashtextextended('pgfifo migrations of ' || $1::text, 0::bigint))"

// up takes the step to version from the one before.
func (m *migrator) up(ctx context.Context, tx pgx.Tx, version int) (state, error) {
	if version == 1 {
		if err := createSchema(ctx, tx, m.name); err != nil {
			return state{}, fmt.Errorf("migrations: create schema %q: %w", m.name, err)
		}
	}
	return m.run(ctx, tx, m.steps[version-1].up, version)
}

// down takes the step to version from the one after.
func (m *migrator) down(ctx context.Context, tx pgx.Tx, version int) (state, error) {
	if version == 0 && m.dropJobs {
		if _, err := tx.Exec(ctx, m.name.Qualify("TRUNCATE pgfifo.jobs, pgfifo.dead_letters")); err != nil {
			return state{}, fmt.Errorf("migrations: drop the jobs in schema %q: %w", m.name, err)
		}
	}
	s, err := m.run(ctx, tx, m.steps[version].down, version)
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) && pgErr.ConstraintName == emptyConstraint {
		return s, fmt.Errorf("%w: schema %q: %w", ErrNotEmpty, m.name, err)
	}
	if err != nil || version > 0 {
		return s, err
	}
	if err := dropSchema(ctx, tx, m.name); err != nil {
		return s, fmt.Errorf("migrations: drop schema %q: %w", m.name, err)
	}
	return s, nil
}

// emptyConstraint is what a table has to satisfy before 0001_init.down.sql drops it.
const emptyConstraint = "empty it before it is dropped"

// run executes a file, which must leave the schema at version.
func (m *migrator) run(ctx context.Context, tx pgx.Tx, f file, version int) (state, error) {
	if _, err := tx.Exec(ctx, m.name.Qualify(f.sql)); err != nil {
		return state{}, fmt.Errorf("migrations: %s: %w", f.name, err)
	}
	left, err := readState(ctx, tx, m.name)
	if err == nil && left.version != version {
		err = fmt.Errorf("migrations: %s: it records version %d instead of %d", f.name, left.version, version)
	}
	if err == nil && left.servesFrom > version {
		err = fmt.Errorf("migrations: %s: version %d serves releases from %d on", f.name, version, left.servesFrom)
	}
	return left, err
}

// createSchemaSQL is what a migration tool runs in the place of createSchema.
func createSchemaSQL(name schema.Name) string {
	return "CREATE SCHEMA IF NOT EXISTS " + name.Ident() + ";\n"
}

// createSchema creates the schema unless it is there.
func createSchema(ctx context.Context, tx pgx.Tx, name schema.Name) error {
	// IF NOT EXISTS alone would want the right to create schemas even where an administrator has created this one.
	const sql = "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)"
	var there bool
	if err := tx.QueryRow(ctx, sql, name.String()).Scan(&there); err != nil || there {
		return err
	}
	_, err := tx.Exec(ctx, createSchemaSQL(name))
	return err
}

// dropSchema drops the schema if nothing depends on it, be it the user's own table or an administrator's default
// privileges, and if the role may. The schema public is nobody's to drop.
func dropSchema(ctx context.Context, tx pgx.Tx, name schema.Name) error {
	const sql = `
		SELECT EXISTS (
			SELECT FROM pg_namespace n
			WHERE n.nspname = $1::text AND n.nspname <> 'public' AND pg_has_role(n.nspowner, 'USAGE')
			  AND NOT EXISTS (SELECT FROM pg_depend d
			                  WHERE d.refclassid = 'pg_namespace'::regclass::oid AND d.refobjid = n.oid))`
	var ours bool
	if err := tx.QueryRow(ctx, sql, name.String()).Scan(&ours); err != nil || !ours {
		return err
	}
	_, err := tx.Exec(ctx, "DROP SCHEMA "+name.Ident())
	return err
}
