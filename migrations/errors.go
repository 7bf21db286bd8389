package migrations

import "errors"

var (
	// ErrNotMigrated is returned by Check if the library's tables are not there.
	ErrNotMigrated = errors.New("migrations: not migrated")

	// ErrTooOld is returned by Check if steps are missing that this release of the library needs.
	ErrTooOld = errors.New("migrations: schema too old")

	// ErrTooNew is returned by Check, Up and Grant if a newer release of the library migrated the schema, to a version
	// that no longer serves this release; and by Down, and by To for a version before Latest, if a newer one migrated
	// it at all.
	ErrTooNew = errors.New("migrations: schema too new")

	// ErrNotIntact is returned by Check, Grant, Up and To if the schema is at a version that serves this release, but a
	// restore has not ended: a table lacks its primary key or its trigger. Or the schema was renamed, by ALTER SCHEMA
	// ... RENAME or in the text of a dump, and its functions do not follow.
	ErrNotIntact = errors.New("migrations: schema not intact")

	// ErrEncoding is returned by all that reads or changes a schema's version where the encoding of the database is not
	// UTF8. What handlers return as errors, and panics, are stored as text, and other encodings cannot have all of it.
	// Where it is the connection's client_encoding that is not, they return fifo.ErrNonconforming: the server would
	// take the schema's name for another one.
	ErrEncoding = errors.New("migrations: the database's encoding is not UTF8")

	// ErrNoVersion is returned by To for a version that does not exist.
	ErrNoVersion = errors.New("migrations: no such version")

	// ErrNotEmpty is returned by Down, and by To for version 0, if there are jobs or dead letters, which would be
	// dropped with their tables: see Config.DropJobs. Nothing is changed.
	ErrNotEmpty = errors.New("migrations: jobs or dead letters are left")

	// ErrLocked is returned by Up, Down and To if a step did not get its table locks in Config.LockTries tries, because
	// a transaction, such as that of a long job, kept a table in use. Nothing of the step is left; try again later.
	ErrLocked = errors.New("migrations: tables in use")

	// ErrConfig is returned for a Config with a field that makes no sense, and for an invalid name of a schema.
	ErrConfig = errors.New("migrations: invalid config")

	errNoPool = errors.New("migrations: nil pool")

	// ErrRole is returned by Grant and RolesSQL for names that they do not take.
	ErrRole = errors.New("migrations: invalid role")

	// ErrNotOwner is returned by Grant if the current role does not own the schema and its tables, types and functions.
	ErrNotOwner = errors.New("migrations: not the owner")
)
