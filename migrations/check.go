package migrations

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/schema"
)

//go:embed version.sql
var versionSQL string

// Check returns nil if the schema ("" means "pgfifo") is at the version that this release of the library needs, or at a
// newer one that still serves this release, and otherwise an error that wraps ErrNotMigrated, ErrTooOld, ErrTooNew,
// ErrNotIntact, ErrEncoding or fifo.ErrNonconforming and says what to do. It is one read of the catalog: it changes
// nothing, needs no privileges, and leaves a transaction usable. db is a *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn or
// pgx.Tx.
func Check(
	ctx context.Context,
	db interface {
		QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	},
	schema string,
) error {
	name, err := parse(schema)
	if err != nil {
		return err
	}
	s, err := readState(ctx, db, name)
	if err != nil {
		return err
	}
	return s.check(name, Latest)
}

// A state is what a schema says of itself. An older release reads it, too: it knows nothing of later steps.
type state struct {
	version    int    // that it is at; 0: not migrated
	servesFrom int    // the lowest version that a release has to know to work with it
	unfinished string // tables that lack their primary key or their trigger; "": none
	renamed    bool   // its functions name another schema, or write its name in another way
}

// check returns the error of a release that knows the versions up to latest.
func (s state) check(name schema.Name, latest int) error {
	var reason error
	switch {
	case s.version == 0:
		reason = ErrNotMigrated
	case s.version < latest:
		reason = ErrTooOld
	case s.servesFrom > latest:
		return fmt.Errorf("%w: schema %q is at version %d, and serves releases that know version %d; "+
			"this one knows %d: use a newer release of github.com/pgfifo/pgfifo",
			ErrTooNew, name, s.version, s.servesFrom, latest)
	default:
		return s.intact(name)
	}
	return fmt.Errorf("%w: schema %q is at version %d, this release needs %d: "+
		"run migrations.Up, or your migration tool with the files of migrations.FS", reason, name, s.version, latest)
}

// intact returns ErrNotIntact if the schema is not as its steps have made it.
func (s state) intact(name schema.Name) error {
	switch {
	case s.renamed:
		return fmt.Errorf("%w: schema %q was renamed, by ALTER SCHEMA or in the text of a dump, and not all of its "+
			"functions work in it: rename it back, or restore it under its old name", ErrNotIntact, name)
	case s.unfinished != "":
		return fmt.Errorf("%w: in schema %q these lack their primary key or trigger: %s: "+
			"wait until its restore has ended; if that has failed, restore again", ErrNotIntact, name, s.unfinished)
	}
	return nil
}

type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

func readState(ctx context.Context, db querier, name schema.Name) (s state, err error) {
	var encoding, client string
	err = db.QueryRow(ctx, versionSQL, name.String(), name.Qualify("pgfifo.jobs")).Scan(
		&s.version, &s.servesFrom, &encoding, &client, &s.unfinished, &s.renamed)
	if err != nil {
		return s, fmt.Errorf("migrations: read version of schema %q: %w", name, err)
	}
	if encoding != "UTF8" {
		return s, fmt.Errorf("%w but %s: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0 makes one that fits",
			ErrEncoding, encoding)
	}
	return s, conforming.Settings("", client) // else the server has read another name
}
