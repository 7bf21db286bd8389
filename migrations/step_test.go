package migrations

import (
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	steps, err := load(files)
	require.NoError(t, err)
	require.Len(t, steps, Latest)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	for want, names := range map[string]string{
		"":                               "0001_a.up.sql 0001_a.down.sql 0002_b.up.sql 0002_b.down.sql",
		"README: not a name like":        "README 0001_a.up.sql 0001_a.down.sql",
		"1_a.up.sql: not a name like":    "1_a.up.sql",
		"the first version is 0001":      "0000_a.up.sql 0000_a.down.sql",
		"version 0001 is missing":        "0002_a.up.sql 0002_a.down.sql",
		"version 0002 is missing":        "0001_a.up.sql 0001_a.down.sql 0003_a.up.sql 0003_a.down.sql",
		"the same version as 0001_a.up":  "0001_a.up.sql 0001_a.down.sql 0001_b.up.sql",
		"0002_b.up.sql: no file for the": "0001_a.up.sql 0001_a.down.sql 0002_b.up.sql",
		"0001_a.down.sql: no file for":   "0001_a.down.sql",
	} {
		fsys := fstest.MapFS{}
		for name := range strings.FieldsSeq(names) {
			fsys[name] = &fstest.MapFile{Data: []byte(name)}
		}
		steps, err := load(fsys)
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []step{
			{file{"0001_a.up.sql", "0001_a.up.sql"}, file{"0001_a.down.sql", "0001_a.down.sql"}},
			{file{"0002_b.up.sql", "0002_b.up.sql"}, file{"0002_b.down.sql", "0002_b.down.sql"}},
		}, steps)
	}
}

// A step is one transaction, the migrator's or the tool's: a file must neither end it nor need to be outside of one.
// Tools have a syntax of their own, and goose cuts at semicolons that end a line, but for what is between its marks.
func TestFilesAreOneTransaction(t *testing.T) {
	t.Parallel()
	forbidden := regexp.MustCompile(`(?im)\b(COMMIT|ROLLBACK|BEGIN|START TRANSACTION|SAVEPOINT)\b` +
		`|\b(CONCURRENTLY|VACUUM)\b|\{\{|\$\$|^\\`)
	comment := regexp.MustCompile(`--.*`)
	block := regexp.MustCompile(`(?s)\$[a-z]+\$\n#.*?\nBEGIN\n`) // of PL/pgSQL
	steps, err := load(files)
	require.NoError(t, err)
	for _, s := range steps {
		for _, f := range []file{s.up, s.down} {
			code := comment.ReplaceAllString(block.ReplaceAllString(f.sql, ""), "")
			require.Empty(t, forbidden.FindAllString(code, -1), f.name)
			require.True(t, strings.HasSuffix(f.sql, ";\n"), f.name)
		}
	}
}
