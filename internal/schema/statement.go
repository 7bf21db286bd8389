package schema

import (
	"embed"
	"strings"
)

// Statement returns the statement sql/name.sql of a package.
func Statement(files embed.FS, name string) string {
	sql, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(sql)
}

// Prepared returns the statements of a package that are prepared under names: each is "pgfifo_" and its file's.
func Prepared(files embed.FS, names ...string) map[string]string {
	statements := make(map[string]string, len(names))
	for _, name := range names {
		statements[name] = Statement(files, strings.TrimPrefix(name, "pgfifo_"))
	}
	return statements
}
