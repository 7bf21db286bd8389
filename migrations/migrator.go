package migrations

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// A migrator moves one schema from version to version.
type migrator struct {
	name        schema.Name
	steps       []step
	lockTimeout time.Duration // for each lock; negative: none
	lockTries   int
}

func newMigrator(fsys fs.FS, cfg *Config) (*migrator, error) {
	name, err := cfg.name()
	if err != nil {
		return nil, err
	}
	steps, err := load(fsys)
	if err != nil {
		return nil, err
	}
	timeout, tries, err := cfg.locking()
	if err != nil {
		return nil, err
	}
	return &migrator{name, steps, timeout, tries}, nil
}

// to takes the steps from the version found to target, if any.
func (m *migrator) to(ctx context.Context, pool *pgxpool.Pool, target int) error {
	if target < 0 || target > len(m.steps) {
		return fmt.Errorf("%w: %d, this release has 0 to %d", ErrNoVersion, target, len(m.steps))
	}
	// Read without the lock, so that a process with nothing to do waits for nobody, and needs no right to write.
	version, err := readVersion(ctx, pool, m.name)
	for err == nil && version != target {
		version, err = m.tryStep(ctx, pool, target)
	}
	return err
}

// tryStep takes one step, as soon as its tables are free.
func (m *migrator) tryStep(ctx context.Context, pool *pgxpool.Pool, target int) (int, error) {
	for n := 1; ; n++ {
		version, err := m.step(ctx, pool, target)
		if !inUse(err) {
			return version, err
		}
		if n >= m.lockTries {
			return 0, fmt.Errorf("%w: after %d tries: %w", ErrLocked, n, err)
		}
		pause := time.NewTimer(2 * m.lockTimeout) // for those who waited behind the step
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return 0, fmt.Errorf("%w: %w: %w", ErrLocked, context.Cause(ctx), err)
		}
	}
}

// inUse reports whether a step was rolled back for its locks: they did not come in time, or would have been a deadlock.
func inUse(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && (pgErr.Code == "55P03" || pgErr.Code == "40P01")
}

// step takes one step towards target, unless another process got there meanwhile, and returns the version it leaves.
func (m *migrator) step(ctx context.Context, pool *pgxpool.Pool, target int) (int, error) {
	// READ COMMITTED whatever the server's default: what is read after the wait for the lock must be what the process
	// that held it left, and not what was there before.
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return 0, fmt.Errorf("migrations: begin: %w", err)
	}
	defer tx.Rollback(ctx)
	if err := m.lock(ctx, tx); err != nil {
		return 0, err
	}
	version, err := readVersion(ctx, tx, m.name)
	if err != nil {
		return 0, err
	}
	switch {
	case version > len(m.steps):
		return 0, compare(m.name, version, len(m.steps))
	case version < target:
		version, err = version+1, m.up(ctx, tx, version+1)
	case version > target:
		version, err = version-1, m.down(ctx, tx, version-1)
	}
	if err != nil {
		return 0, err
	}
	if err := tx.Commit(ctx); err != nil {
		return 0, fmt.Errorf("migrations: commit version %d: %w", version, err)
	}
	return version, nil
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

// lockSQL must never change: releases of the library that run at the same time keep each other out by it.
const lockSQL = "SELECT pg_advisory_xact_lock(hashtextextended('pgfifo migrations of ' || $1::text, 0::bigint))"

// up takes the step to version from the one before.
func (m *migrator) up(ctx context.Context, tx pgx.Tx, version int) error {
	if version == 1 {
		if err := createSchema(ctx, tx, m.name); err != nil {
			return fmt.Errorf("migrations: create schema %q: %w", m.name, err)
		}
	}
	return m.run(ctx, tx, m.steps[version-1].up, version)
}

// down takes the step to version from the one after.
func (m *migrator) down(ctx context.Context, tx pgx.Tx, version int) error {
	if err := m.run(ctx, tx, m.steps[version].down, version); err != nil || version > 0 {
		return err
	}
	if err := dropSchema(ctx, tx, m.name); err != nil {
		return fmt.Errorf("migrations: drop schema %q: %w", m.name, err)
	}
	return nil
}

// run executes a file, which must leave the schema at version.
func (m *migrator) run(ctx context.Context, tx pgx.Tx, f file, version int) error {
	if _, err := tx.Exec(ctx, m.name.Qualify(f.sql)); err != nil {
		return fmt.Errorf("migrations: %s: %w", f.name, err)
	}
	left, err := readVersion(ctx, tx, m.name)
	if err != nil {
		return err
	}
	if left != version {
		return fmt.Errorf("migrations: %s: it records version %d instead of %d", f.name, left, version)
	}
	return nil
}
