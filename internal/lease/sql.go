package lease

import (
	"embed"
	"maps"

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

// ownTexts are the statements of a worker's sessions, by name, except those that differ between sessions. A session
// prepares one when it first uses it.
var ownTexts = func() map[string]string {
	own := make(map[string]string, len(texts))
	for name, sql := range texts {
		own[ownPrefix+name] = sql
	}
	for _, notPrepared := range []string{"end_wait", "fence", "fence_claim", "mark", "relock", "relock_group_slot"} {
		delete(own, ownPrefix+notPrepared)
	}
	for look, name := range slotLooks {
		own[name] = withSlot.Replace(own[look])
	}
	maps.Copy(own, savepointSQL)
	maps.Copy(own, boundSQL)
	own[stmtBegin], own[stmtCommit] = beginSQL, commitSQL
	own[stmtChain] = "COMMIT AND CHAIN" // COMMIT and BEGIN in one statement, with the same isolation
	return own
}()
