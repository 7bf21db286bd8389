package schema

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBare(t *testing.T) {
	t.Parallel()
	for _, x := range [][2]string{
		{"", ""},
		{"SELECT 1-1", "SELECT 1-1"},
		{"-- the caller's $1\nSELECT $1 -- it's \"one\"\n-- \"\nFROM t -- end", "\nSELECT $1 \n\nFROM t "},
		{`SELECT '', '--', '"', "--", 'a' "x"`, `SELECT '', '--', '"', "--", 'a' "x"`},
		{`SELECT E'\n' || $1 || '$2' - -$3`, `SELECT E'\n' || $1 || '$2' - -$3`},
		{`SELECT $1 FROM "it's $1 ""\b""".jobs, "$"`, `SELECT $1 FROM U&"it\0027s \00241 ""\\b""".jobs, U&"\0024"`},
		{`SELECT 'it''s $1 \ ', ''''`, `SELECT E'it\x27s $1 \\ ', E'\x27'`},
	} {
		require.Equal(t, x[1], Bare(x[0]))
	}
}

// Of no statement, in no schema, is anything left that such a driver mistakes.
func TestStatementsAreBare(t *testing.T) {
	t.Parallel()
	name, err := Parse(`it's $1 "x"`)
	require.NoError(t, err)
	root := os.DirFS("../..")
	files, err := fs.Glob(root, "fifo/sql/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range append(files, "migrations/version.sql") {
		sql, err := fs.ReadFile(root, file)
		require.NoError(t, err)
		bare := Bare(name.Qualify(string(sql)))
		for i, part := range strings.Split(bare, "'") {
			if i%2 == 0 { // outside of strings
				require.NotContains(t, part, "--", file)
				require.NotContains(t, part, "s $1", file)
			}
		}
		require.NotContains(t, bare, "it's", file)
		require.NotContains(t, bare, "it''s", file)
	}
}
