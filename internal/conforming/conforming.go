// Package conforming refuses connections on which a text is not what was sent: a quoted string may end before its
// closing quote, or the server takes the bytes for those of another encoding.
package conforming

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The parameters that decide. Each may come from the server, the database, the role, or the connection string.
const (
	stringsSetting  = "standard_conforming_strings"
	encodingSetting = "client_encoding"
)

// Err is of each of them.
var Err = errors.New("pgfifo: the connection's settings change what is sent")

// errStrings says that backslashes escape in plain strings. bun, which writes values into its statements, does not
// escape them.
var errStrings = fmt.Errorf("%w: %s is off: a backslash could end a quoted value; "+
	"switch it on for the database, the role or the connection", Err, stringsSetting)

// Check returns an error if one of the settings is wrong now. It asks the server nothing: that tells of each change by
// itself.
func Check(conn *pgconn.PgConn) error {
	return Settings(conn.ParameterStatus(stringsSetting), conn.ParameterStatus(encodingSetting))
}

// Encoding is Check of the encoding alone, for statements that have nothing written into them.
func Encoding(conn *pgconn.PgConn) error { return encoding(conn.ParameterStatus(encodingSetting)) }

// SettingsSQL asks for what Settings takes, where nobody tells.
const SettingsSQL = "SELECT pg_catalog.current_setting('" + stringsSetting + "'), " +
	"pg_catalog.current_setting('" + encodingSetting + "')"

// Settings returns an error if one of two values is wrong. Empty, it is not known, as behind some poolers.
func Settings(stringsOn, clientEncoding string) error {
	if stringsOn == "off" {
		return errStrings
	}
	return encoding(clientEncoding)
}

// encoding refuses SQL_ASCII as well: with that, nothing is converted or checked. UNICODE is UTF8, and the only other
// name of it that the server tells as it was set.
func encoding(name string) error {
	switch strings.ToUpper(strings.ReplaceAll(name, "-", "")) {
	case "", "UTF8", "UNICODE":
		return nil
	}
	return fmt.Errorf("%w: %s is %s: names, ids and headers would be stored as other texts than were sent; "+
		"set it to UTF8 for the database, the role or the connection", Err, encodingSetting, name)
}
