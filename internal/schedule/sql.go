package schedule

import (
	"embed"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// The statements that find groups, each with its contract on top. They are written for the schema "pgfifo" and run in
// psql as they are; but those that look for heads have one end in common.
//
//go:embed sql/*.sql
var files embed.FS

// statement returns that of a file.
var statement = schema.Read(files).Named

var (
	headsSQL              = statement("heads")
	candidatesSQL         = statement("candidates") + headsSQL
	candidatesAdjacentSQL = statement("candidates_adjacent") + headsSQL
	groupsSQL             = statement("groups") + headsSQL
	firstsSQL             = statement("firsts") + headsSQL
)
