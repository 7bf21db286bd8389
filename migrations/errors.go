package migrations

import "errors"

var (
	// ErrNotMigrated is returned by Check if the library's tables are not there.
	ErrNotMigrated = errors.New("migrations: not migrated")

	// ErrTooOld is returned by Check if steps are missing that this release of the library needs.
	ErrTooOld = errors.New("migrations: schema too old")

	// ErrTooNew is returned by Check, Up, Down and To if a newer release of the library migrated the schema.
	ErrTooNew = errors.New("migrations: schema too new")

	// ErrNoVersion is returned by To for a version that does not exist.
	ErrNoVersion = errors.New("migrations: no such version")

	// ErrRole is returned by Grant and RolesSQL for names that they do not take.
	ErrRole = errors.New("migrations: invalid role")

	// ErrNotOwner is returned by Grant if the current role does not own the schema and its tables.
	ErrNotOwner = errors.New("migrations: not the owner")
)
