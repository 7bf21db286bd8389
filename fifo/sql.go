package fifo

import (
	"embed"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// The statements that carry the guarantees, each with its contract on top. They are written for the schema "pgfifo" and
// run in psql as they are, except enqueue_new.sql and enqueued.sql.
//
//go:embed sql/*.sql
var files embed.FS

// statement returns that of a file.
var statement = schema.Read(files).Named

// settleStatements are those that settle a job, by their names. A lane prepares one when it first uses it.
var settleStatements = make(map[string]string)

// settles adds the statement of a file to them, and returns its name.
func settles(file string) string {
	name := "pgfifo_" + file
	settleStatements[name] = statement(file)
	return name
}
