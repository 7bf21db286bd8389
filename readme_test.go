package pgfifo_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the parts of programs in README.md take for granted.
const readmeFrame = `package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/migrations"
)

type Transfer struct{ Amount int }

type Order struct{ Item string }

func check(error) {}

func good([]*fifo.Job) (int, error) { return 0, nil }

var _ = []any{fmt.Println, os.Getenv, pgx.ErrNoRows, pgxpool.New, migrations.Up}

func main() {}
`

// The programs in README.md compile, and so do the parts.
func TestREADMECompiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	parts, programs := readmeFrame, 0
	vet := func(source string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "main.go")
		require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
		out, err := exec.CommandContext(t.Context(), "go", "vet", file).CombinedOutput()
		require.NoError(t, err, "%s\n%s", out, source)
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	for i, b := range blocks {
		if strings.HasPrefix(b[1], "package ") {
			vet(b[1])
			programs++
			continue
		}
		parts += fmt.Sprintf("\nfunc part%d(ctx context.Context, "+
			"client *fifo.Client, worker *fifo.Worker, db *sql.DB) {\n{\n%s}\n}\n", i, b[1])
	}
	require.Equal(t, 1, programs)
	require.Len(t, blocks, 6)
	vet(parts)
}
