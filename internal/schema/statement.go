package schema

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

// Statements returns what returns the statement sql/name.sql of a package. It panics if there is none.
func Statements(files embed.FS) func(name string) string {
	statements := make(map[string]string)
	names, _ := fs.Glob(files, "sql/*.sql") // a pattern that is none is the only error
	for _, name := range names {
		sql, _ := files.ReadFile(name) // it is there
		statements[strings.TrimSuffix(path.Base(name), ".sql")] = string(sql)
	}
	return func(name string) string {
		sql, ok := statements[name]
		if !ok {
			panic("no statement " + name)
		}
		return sql
	}
}

// Prepared returns the statements that are prepared under names: each is "pgfifo_" and its file's.
func Prepared(statement func(name string) string, names ...string) map[string]string {
	statements := make(map[string]string, len(names))
	for _, name := range names {
		statements[name] = statement(strings.TrimPrefix(name, "pgfifo_"))
	}
	return statements
}
