package migrations

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed sql/*.sql
var embedded embed.FS

// files are the steps, written for the default schema.
var files = func() fs.FS {
	sub, err := fs.Sub(embedded, "sql")
	if err != nil {
		panic(err) // only for an invalid path, and the path is a constant
	}
	return sub
}()

// A step leads from the version before it to its own, and back.
type step struct{ up, down file }

// name returns the name of a file with the step, whatever its direction.
func (s step) name() string { return strings.TrimSuffix(s.up.name, ".up.sql") + ".sql" }

// A file is one direction of a step.
type file struct{ name, sql string }

// load reads the steps in fsys. The step at index i leads to version i+1. A test checks that each file is of a step.
func load(fsys fs.FS) (steps []step, err error) {
	for {
		up, err := fs.Glob(fsys, fmt.Sprintf("%04d_*.up.sql", len(steps)+1))
		if err != nil || len(up) == 0 {
			return steps, err
		}
		s := step{file{name: up[0]}, file{name: strings.TrimSuffix(up[0], ".up.sql") + ".down.sql"}}
		for _, f := range []*file{&s.up, &s.down} {
			sql, err := fs.ReadFile(fsys, f.name)
			if err != nil {
				return nil, fmt.Errorf("migrations: %w", err)
			}
			f.sql = string(sql)
		}
		steps = append(steps, s)
	}
}
