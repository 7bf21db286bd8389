package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// restoredSettings are those on which settling a job depends, or whether the next one can run, in the order in which
// they are put back: who the session is first, because others may need its rights. A handler may set each for its
// transaction (SET LOCAL), and that outlives the savepoint; or, in a function that nobody looks into, for longer.
//
// The plannerSettings are put back, too: while a handler runs they are the session's defaults.
var restoredSettings = []string{
	"session_authorization", "role", "client_encoding", "search_path", "statement_timeout", "lock_timeout",
	"session_replication_role", "idle_in_transaction_session_timeout", "standard_conforming_strings",
}

// restoreSQL returns the statement that puts them back as the session has them now, if the transaction is the one that
// claimed: $1. Else it fails: a handler that ended that transaction cannot make an unheld job succeed. On a pooled
// lane, what stmtLocal sets is put back for the transaction only.
//
// It sets only what differs, because setting some of them takes a superuser even if nothing changes. It sets that for
// the session: else what a handler has set for the session would be back after the commit. It writes 'f' for false,
// which setsConfig does not look for. So if the server's configuration changes one of them, lanes may keep what they
// have had since they were dialed. The values are in its text, and not parameters: those would be read in the handler's
// encoding.
func restoreSQL(ctx context.Context, conn *pgconn.PgConn, local [][2]string) (string, error) {
	var b strings.Builder
	b.WriteString("-- Puts settings back on which settling a job depends, in the transaction that has claimed it.\n" +
		"SELECT CASE WHEN coalesce(pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text, '') " +
		"OPERATOR(pg_catalog.<>) $1::pg_catalog.text\n            THEN " +
		"pg_catalog.concat('pgfifo: the transaction is not the one " +
		"that claimed: ', pg_catalog.pg_backend_pid())::pg_catalog.int4 END")
	names := slices.Clip(restoredSettings)
	for _, s := range plannerSettings {
		names = append(names, s[0])
	}
	if serverVersion(conn) >= 17 {
		names = append(names, "transaction_timeout")
	}
	show := setLocal(local) + "; SHOW " + strings.Join(names, "; SHOW ") // one query is one transaction
	results, err := conn.Exec(ctx, show).ReadAll()
	if err != nil {
		return "", fmt.Errorf("lease: read settings: %w", err)
	}
	for i, name := range names {
		value, err := conn.EscapeString(string(results[1+i].Rows[0][0]))
		if err != nil {
			return "", fmt.Errorf("lease: setting %s: %w", name, err)
		}
		forTransaction := 'f'
		if slices.ContainsFunc(local, func(s [2]string) bool { return s[0] == name }) {
			forTransaction = 't'
		}
		fmt.Fprintf(&b, ",\n       CASE WHEN pg_catalog.current_setting('%[1]s') OPERATOR(pg_catalog.<>) '%[2]s' "+
			"THEN pg_catalog.set_config('%[1]s', '%[2]s', '%[3]c') END", name, value, forTransaction)
	}
	return b.String(), nil
}
