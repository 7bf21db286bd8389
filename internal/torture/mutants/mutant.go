// Package mutants lists bugs that are planted on purpose, to see whether the harness, or a test, catches them: each is
// a change of the library's text, Go or SQL, that exists in a build of its own only. One that nothing catches is a hole
// in the harness.
package mutants

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgfifo/pgfifo/internal/torture/overlay"
)

// Files that they change.
const (
	recordFile     = "internal/lease/record.go"
	fenceSQLFile   = "internal/lease/sql/fence.sql"
	watchFile      = "internal/schedule/watch.go"
	scoutFile      = "internal/schedule/scout.go"
	rowsFile       = "internal/schedule/rows.go"
	lanesFile      = "internal/schedule/lanes.go"
	floorFile      = "internal/schedule/floor.go"
	turnsFile      = "internal/schedule/turns.go"
	lineFile       = "internal/schedule/line.go"
	probeFile      = "internal/schedule/probe.go"
	lookFile       = "internal/schedule/look.go"
	bookFile       = "internal/schedule/book.go"
	readerFile     = "internal/schedule/reader.go"
	roomFile       = "internal/schedule/room.go"
	sharesFile     = "internal/schedule/shares.go"
	behindFile     = "internal/lease/behind.go"
	savepointFile  = "internal/lease/savepoint.go"
	nestFile       = "internal/lease/nest.go"
	claimBatchFile = "internal/lease/sql/claim_batch.sql"
)

// A Mutant is a bug to be planted.
type Mutant struct {
	Name   string
	Breaks string // what is wrong with it
	Edits  []Edit

	// Torture are the flags of the harness's run that must break one of the invariants By.
	Torture []string
	By      []string
	// Alone says that the run needs a server of its own: it restarts it, cuts the network or reads its log.
	Alone bool

	// Test is the test that must fail, for what the harness cannot see. There are no Torture and By then.
	Test Test
}

// A Test names tests: the folder of their package, and a pattern as of go test -run.
type Test struct {
	Package, Run string
}

// An Edit replaces a text of a file, which must be there exactly once: when the code has moved on, the list says so.
type Edit struct {
	File, Old, New string
}

// plant lists a bug: its name, what is wrong with it, what catches it, and its edits.
func plant(name, breaks string, caught Mutant, edits ...Edit) Mutant {
	caught.Name, caught.Breaks, caught.Edits = name, breaks, edits
	return caught
}

// run is a run of the harness with those flags, which must break one of the invariants.
func run(flags string, invariants ...string) Mutant {
	return Mutant{Torture: strings.Fields(flags), By: invariants}
}

// test is a test that must fail: the folder of its package, and a pattern as of go test -run.
func test(pkg, pattern string) Mutant { return Mutant{Test: Test{pkg, pattern}} }

// alone gives it a server of its own.
func (m Mutant) alone() Mutant {
	m.Alone = true
	return m
}

// in is an edit of a file.
func in(file, old, replacement string) Edit { return Edit{file, old, replacement} }

// A Theme is a part of the list.
type Theme struct {
	Name    string
	Mutants []Mutant
}

// Themes returns all mutants, sorted by what they break.
func Themes() []Theme {
	return []Theme{
		{"the claim", claims},
		{"attempts and evidence", attempts},
		{"operators", operators},
		{"effects and completion", effects},
		{"batches", batches},
		{"ids and floors", ids},
		{"silence and lost leases", silence},
		{"fencing tokens", fences},
		{"producers", producers},
		{"discovery, pauses and collection", discovery},
		{"what is told", told},
		{"the lease of a session", sessions},
		{"what is left behind", leftovers},
		{"upgrades", upgrades},
	}
}

// Files returns the files that the mutant changes, below root, with their changed texts.
func (m *Mutant) Files(root string) (map[string]string, error) {
	files := make(map[string]string)
	for _, e := range m.Edits {
		text, changed := files[e.File]
		if !changed {
			b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("mutant %s: %s has the text %d times, not once: %s", m.Name, e.File, n, e.Old)
		}
		files[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".go") {
			if _, err := parser.ParseFile(token.NewFileSet(), name, text, 0); err != nil {
				return nil, fmt.Errorf("mutant %s: %w", m.Name, err)
			}
		}
	}
	return files, nil
}

// Overlay writes the changed files to the folder dir, and returns the file to build them with: go build -overlay.
func (m *Mutant) Overlay(root, dir string) (string, error) {
	files, err := m.Files(root)
	if err != nil {
		return "", err
	}
	texts := make(map[string]string)
	for name, text := range files {
		texts[filepath.Join(root, filepath.FromSlash(name))] = text
	}
	return overlay.Write(dir, texts)
}

// CaughtBy returns which of the broken invariants were to break, in their order.
func (m *Mutant) CaughtBy(broken []string) []string {
	return slices.DeleteFunc(slices.Clone(broken), func(name string) bool { return !slices.Contains(m.By, name) })
}
