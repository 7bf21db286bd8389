// Package conforming refuses connections on which a quoted string may end before its closing quote.
package conforming

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Setting is the parameter that decides. It may come from the server, the database, the role, or the connection string.
const Setting = "standard_conforming_strings"

// Err says that backslashes escape in plain strings. bun, which writes values into its statements, does not escape
// them.
var Err = errors.New("pgfifo: " + Setting + " is off on the connection: a backslash could end a quoted value; " +
	"switch it on for the database, the role or the connection")

// Check returns Err if the setting is off now. It asks the server nothing: it tells of each change by itself.
func Check(conn *pgconn.PgConn) error { return Of(conn.ParameterStatus(Setting)) }

// Of is Check for a value of the setting.
func Of(value string) error {
	if value == "off" {
		return Err
	}
	return nil
}
