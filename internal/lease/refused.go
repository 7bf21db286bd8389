package lease

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Refused reports whether an error is that of a server that goes on working: it has refused a statement, found a job
// other than it was held, or left it as it was. Any other error is the connection's.
func Refused(err error) bool {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		return pgErr.Severity != "FATAL" && pgErr.Severity != "PANIC"
	}
	return errors.Is(err, ErrNotHeld) || errors.Is(err, errUnchanged)
}

// ServerWide reports whether a server refuses for reasons that are nobody's in particular: it has no room left, is
// going down, or has become a standby. Then no group is to blame.
func ServerWide(err error) bool {
	code := sqlState(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] { // see "PostgreSQL Error Codes" in the manual
	case "53", "58": // insufficient resources, system error
		return true
	case "57": // operator intervention, except a cancelled statement
		return code != statementCancelled
	}
	return code == "25006" || inRecovery(err) // read only
}

// inRecovery reports whether BEGIN, which asks for READ WRITE, was refused by a standby. Its text is in the server's
// language; nothing else of the library's sets a variable that a server refuses as not supported.
func inRecovery(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && pgErr.Code == notSupported && pgErr.Routine == "call_bool_check_hook"
}

const (
	lockNotAvailable   = "55P03"
	notSupported       = "0A000" // of a prepared statement: its tables were made anew; of BEGIN: see inRecovery
	noSuchStatement    = "26000"
	statementCancelled = "57014"
)

// sqlState returns the code of a server's error, or "" if it is none.
func sqlState(err error) string {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// Blames reports whether a server refuses for a reason of the groups that are asked for, as a trigger has. A lock that
// is waited for too long is no such reason.
func Blames(err error) bool { return Refused(err) && !ServerWide(err) && !tooLong(err) }
