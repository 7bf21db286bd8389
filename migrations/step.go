package migrations

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
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

var fileName = regexp.MustCompile(`^([0-9]{4})_[a-z0-9_]+\.(up|down)\.sql$`)

// load reads the steps in fsys. The step at index i leads to version i+1.
func load(fsys fs.FS) ([]step, error) {
	entries, err := fs.ReadDir(fsys, ".") // in the order of the names
	if err != nil {
		return nil, fmt.Errorf("migrations: %w", err)
	}
	var steps []step
	for _, e := range entries {
		if steps, err = add(steps, fsys, e.Name()); err != nil {
			return nil, fmt.Errorf("migrations: %s: %w", e.Name(), err)
		}
	}
	for i, s := range steps {
		if s.up.name == "" || s.down.name == "" {
			return nil, fmt.Errorf("migrations: %s%s: no file for the other direction of version %d",
				s.up.name, s.down.name, i+1)
		}
	}
	return steps, nil
}

// add adds the named file, whose version must be the last one of steps or the next.
func add(steps []step, fsys fs.FS, name string) ([]step, error) {
	match := fileName.FindStringSubmatch(name)
	if match == nil {
		return nil, errors.New("not a name like 0001_init.up.sql")
	}
	sql, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	switch version, _ := strconv.Atoi(match[1]); version { // four digits: no error
	case 0:
		return nil, errors.New("the first version is 0001")
	case len(steps):
	case len(steps) + 1:
		steps = append(steps, step{})
	default:
		return nil, fmt.Errorf("version %04d is missing", len(steps)+1)
	}
	s := &steps[len(steps)-1]
	f := &s.up
	if match[2] == "down" {
		f = &s.down
	}
	if f.name != "" {
		return nil, fmt.Errorf("the same version as %s", f.name)
	}
	*f = file{name, string(sql)}
	return steps, nil
}
