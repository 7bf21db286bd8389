package lease

import (
	"embed"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// The statements that carry the guarantees, each with its contract on top. They are written for the schema "pgfifo"
// and run in psql as they are.
//
//go:embed sql/*.sql
var files embed.FS

var texts = schema.Read(files)

// statement returns that of a file.
func statement(name string) string { return texts.Named(name) }

const (
	beginSQL  = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" // whatever the database's defaults are
	commitSQL = "COMMIT"
)

var transactionSQL = map[string]string{
	stmtBegin:  beginSQL,
	stmtCommit: commitSQL,
	stmtChain:  "COMMIT AND CHAIN", // COMMIT and BEGIN in one statement, with the same isolation
}
