package pgfifo_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the parts of programs in documents take for granted.
const documentFrame = `package main

import (
	"context"
	"database/sql"
	"errors"
	"expvar"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

type Transfer struct{ Amount int }

type Order struct{ Item string }

func check(error) {}

func good([]*fifo.Job) (int, error) { return 0, nil }

func pay(context.Context, *fifo.Job) error { return nil }

var errDuplicate = errors.New("a duplicate")

var _ = []any{fmt.Println, os.Getenv, pgx.ErrNoRows, pgxpool.New, migrations.Up, expvar.NewMap, http.Handle, time.Now}

func main() {}
`

// The programs in documents compile, and so do the parts.
func TestDocumentsCompile(t *testing.T) {
	t.Parallel()
	for document, count := range map[string]struct{ blocks, programs int }{
		"README.md": {7, 1}, "docs/production.md": {2, 1},
	} {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		parts, programs := documentFrame, 0
		blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
		for i, b := range blocks {
			if strings.HasPrefix(b[1], "package ") {
				vet(t, b[1])
				programs++
				continue
			}
			parts += fmt.Sprintf("\nfunc part%d(ctx context.Context, pool *pgxpool.Pool, "+
				"client *fifo.Client, worker *fifo.Worker, db *sql.DB) {\n{\n%s}\n}\n", i, b[1])
		}
		require.Equal(t, count.programs, programs, document)
		require.Len(t, blocks, count.blocks, document)
		vet(t, parts)
	}
}

// vet requires that go vet finds nothing in the text of a program.
func vet(t *testing.T, source string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, source)
}

// Tests that are named, or are links to their file: `TestA`, [`TestB`, `TestC`](b_test.go).
var namedTests = regexp.MustCompile("(`Test\\w+`(?:,\\s+`Test\\w+`)*)(?:\\]\\((.+?)\\))?")

// The tests that documents name are there, in the file that a link leads to.
func TestDocumentsNameTests(t *testing.T) {
	t.Parallel()
	declared := make(map[string][]string) // in which files, by name
	require.NoError(t, filepath.WalkDir(".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(file, "_test.go") {
			return err
		}
		source, err := os.ReadFile(file)
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			declared[string(match[1])] = append(declared[string(match[1])], file)
		}
		return err
	}))
	documents, err := filepath.Glob("docs/*.md")
	require.NoError(t, err)
	for _, document := range append(documents, "README.md", "SECURITY.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, match := range namedTests.FindAllStringSubmatch(string(text), -1) {
			for _, name := range regexp.MustCompile(`\w+`).FindAllString(match[1], -1) {
				require.NotEmpty(t, declared[name], "%s names %s", document, name)
				if match[2] != "" {
					require.Contains(t, declared[name], filepath.Join(filepath.Dir(document), match[2]), name)
				}
			}
		}
	}
}
