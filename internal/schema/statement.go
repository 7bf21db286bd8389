package schema

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

// Statements are those of a package, by the names of their files.
type Statements map[string]string

// Read returns the statements sql/name.sql.
func Read(files embed.FS) Statements {
	s := make(Statements)
	names, _ := fs.Glob(files, "sql/*.sql") // a pattern that is none is the only error
	for _, name := range names {
		sql, _ := files.ReadFile(name) // it is there
		s[strings.TrimSuffix(path.Base(name), ".sql")] = string(sql)
	}
	return s
}

// Named returns the statement of a name, and panics if there is none.
func (s Statements) Named(name string) string {
	sql, ok := s[name]
	if !ok {
		panic("no statement " + name)
	}
	return sql
}
