package schedule

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
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

// A querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// query runs a statement, and calls each whenever it has read a row into the given variables. The error says what it
// was for.
func query(ctx context.Context, db querier, what, sql string, args, into []any, each func()) error {
	rows, _ := db.Query(ctx, sql, args...) // its error is that of the rows
	_, err := pgx.ForEachRow(rows, into, func() error {
		each()
		return nil
	})
	if err != nil {
		return fmt.Errorf("schedule: %s: %w", what, err)
	}
	return nil
}

// columns returns keys as arguments of a statement.
func columns(keys []groups.Key) (queues, ids []string) {
	queues, ids = make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		queues[i], ids[i] = key.Queue, key.GroupID
	}
	return queues, ids
}
