package tuning_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// known are the numbers that stand where they are used, and why they are no tuning.
var known = map[string]string{
	"fifo.MaxBatch":                 "limit of the interface",
	"fifo.MaxDelay":                 "limit of the interface",
	"fifo.MaxGroupLimit":            "limit of the interface",
	"fifo.MaxLimit":                 "limit of the interface",
	"fifo.MaxEnqueueBytes":          "limit of the interface",
	"fifo.MaxPayloadBytes":          "limit of the interface",
	"fifo.MaxQueued":                "limit of the interface",
	"fifo.MaxReasonBytes":           "limit of the interface",
	"fifo.MaxWeight":                "limit of the interface",
	"fifo.maxRetention":             "limit of the interface",
	"fifo.minSnooze":                "limit of the interface",
	"groups.MaxIDBytes":             "limit of the interface",
	"lease.maxBatchBytes":           "limit of the interface, and what is read of an answer",
	"lease.lookAhead":               "a part of maxBatchBytes",
	"schedule.MaxPriority":          "limit of the interface",
	"fifo.DefaultMaxAttempts":       "default",
	"migrations.defaultLockTimeout": "default",
	"migrations.defaultLockTries":   "default",
	"fifo.defaultBackoff":           "default",
	"fifo.withDefaults":             "defaults",
	"lease.WithDefaults":            "defaults",
	"fifo.most":                     "names in an error",
	"fifo.mostLanes":                "what a server can have",
	"fifo.maxErrorBytes":            "what a row keeps of a failure",
	"fifo.maxFailures":              "what a row keeps of failures",
	"fifo.maxStackBytes":            "what a row keeps of a failure",
	"fifo.ownGroupBytes":            "format of a name",
	"fifo.ownGroupMark":             "format of a name",
	"schedule.laneParts":            "format: time in parts",
	"fifo.maxNameBytes":             "fact of PostgreSQL",
	"fifo.noticeBytes":              "fact of PostgreSQL",
	"schema.maxLen":                 "fact of PostgreSQL",
	"lease.pollErr":                 "fact of Linux",
	"lease.pollHup":                 "fact of Linux",
	"lease.pollRdHup":               "fact of Linux",
	"lease.tcpUserTimeout":          "fact of Linux",
	"lease.maxDue":                  "fact of Go",
	"migrations.Latest":             "version",
}

const module = "github.com/pgfifo/pgfifo/"

// At most a dozen numbers are to be had in mind. Another one has to be one of these, or to be made of them.
func TestNumbersStandInTheTable(t *testing.T) {
	t.Parallel()
	var table []string
	found := make(map[string]bool)
	for _, dir := range library(t) {
		pkg := filepath.Base(dir)
		for _, file := range parse(t, dir) {
			for spec := range constants(file) {
				for i, value := range spec.Values {
					name := spec.Names[i].Name
					switch {
					case !number(value):
					case pkg == "tuning":
						table = append(table, name)
						require.NotNil(t, spec.Doc, "%s has no reason", name)
					default:
						found[pkg+"."+name] = true
					}
				}
			}
			for name := range durations(file) {
				found[pkg+"."+name] = true
			}
		}
	}
	require.LessOrEqual(t, len(table), 12)
	require.Contains(t, table, "Known", "the table was read")
	want := slices.Sorted(maps.Keys(known))
	require.Equal(t, want, slices.Sorted(maps.Keys(found)),
		"a number that is no tuning belongs to the list above, with its reason; any other to the table")
}

// constants returns what declares constants, in functions too.
func constants(file *ast.File) iter.Seq[*ast.ValueSpec] {
	return func(yield func(*ast.ValueSpec) bool) {
		ast.Inspect(file, func(n ast.Node) bool {
			if decl, ok := n.(*ast.GenDecl); ok && decl.Tok == token.CONST {
				for _, spec := range decl.Specs {
					yield(spec.(*ast.ValueSpec))
				}
			}
			return true
		})
	}
}

// durations returns the functions and variables that have a number of seconds, or of another unit, in an expression.
func durations(file *ast.File) map[string]bool {
	names := make(map[string]bool)
	for _, decl := range file.Decls {
		name := ""
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name = decl.Name.Name
		case *ast.GenDecl:
			if spec, ok := decl.Specs[0].(*ast.ValueSpec); ok && decl.Tok == token.VAR {
				name = spec.Names[0].Name
			}
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if e, ok := n.(*ast.BinaryExpr); ok && e.Op == token.MUL && name != "" && literal(e.X) && unit(e.Y) {
				names[name] = true
			}
			return true
		})
	}
	return names
}

func literal(e ast.Expr) bool {
	_, is := e.(*ast.BasicLit)
	return is
}

// unit reports whether an expression is time.Second, say.
func unit(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == "time"
}

// number reports whether an expression has a number of its own. One that is made of the table's has not, nor has a list
// of names.
func number(e ast.Expr) (is bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			is = is || n.Kind != token.STRING
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && (x.Name == "time" || x.Name == "math") {
				is = true
			}
		}
		return true
	})
	ast.Inspect(e, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && (id.Name == "tuning" || id.Name == "iota") {
			is = false
		}
		return true
	})
	return is
}

// library returns the directories of the packages that who imports the library gets.
func library(t *testing.T) (dirs []string) {
	t.Helper()
	dirs = []string{"fifo", "groups", "migrations"}
	for i := 0; i < len(dirs); i++ {
		for _, file := range parse(t, dirs[i]) {
			for _, spec := range file.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				require.NoError(t, err)
				if dir, ours := strings.CutPrefix(path, module); ours && !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	return dirs
}

// parse reads a package, without its tests.
func parse(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	dir = filepath.Join("..", "..", dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, parser.ParseComments)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	return files
}
