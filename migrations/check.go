package migrations

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/internal/schema"
)

//go:embed version.sql
var versionSQL string

// A Querier is a *pgxpool.Pool, *pgxpool.Conn, *pgx.Conn or pgx.Tx.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Check returns nil if the schema ("" means "pgfifo") is at the version that this release of the library needs, and
// otherwise an error that wraps ErrNotMigrated, ErrTooOld, ErrTooNew or ErrEncoding and says what to do. It is one read
// of the catalog: it changes nothing, needs no privileges, and leaves a transaction usable.
func Check(ctx context.Context, db Querier, schema string) error {
	name, err := parse(schema)
	if err != nil {
		return err
	}
	found, err := readVersion(ctx, db, name)
	if err != nil {
		return err
	}
	return compare(name, found, Latest)
}

// compare returns the error of a schema that is at version found where latest is needed.
func compare(name schema.Name, found, latest int) error {
	var reason error
	advice := "run migrations.Up, or your migration tool with the files of migrations.FS"
	switch {
	case found == latest:
		return nil
	case found == 0:
		reason = ErrNotMigrated
	case found < latest:
		reason = ErrTooOld
	default:
		reason, advice = ErrTooNew, "use a release of github.com/pgfifo/pgfifo that knows this version"
	}
	return fmt.Errorf("%w: schema %q is at version %d, this release needs %d: %s", reason, name, found, latest, advice)
}

func readVersion(ctx context.Context, db Querier, name schema.Name) (int, error) {
	var version int
	var encoding string
	if err := db.QueryRow(ctx, versionSQL, name.String()).Scan(&version, &encoding); err != nil {
		return 0, fmt.Errorf("migrations: read version of schema %q: %w", name, err)
	}
	if encoding != "UTF8" {
		return 0, fmt.Errorf("%w but %s: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0 makes one that fits",
			ErrEncoding, encoding)
	}
	return version, nil
}
