// Package conforming refuses connections on which a quoted string may end before its closing quote.
package conforming

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// setting is the parameter that decides. It may come from the server, the database, the role, or the connection string.
const setting = "standard_conforming_strings"

// Err says that backslashes escape in plain strings. bun, which writes values into its statements, does not escape
// them.
var Err = errors.New("pgfifo: " + setting + " is off on the connection: a backslash could end a quoted value; " +
	"switch it on for the database, the role or the connection")

// Check returns Err if the setting is off now. It asks the server nothing: it tells of each change by itself.
func Check(conn *pgconn.PgConn) error {
	if conn.ParameterStatus(setting) == "off" {
		return Err
	}
	return nil
}
