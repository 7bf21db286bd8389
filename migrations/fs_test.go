package migrations

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// read returns a file of FS.
func read(t *testing.T, schema, name string) string {
	t.Helper()
	fsys, err := FS(schema)
	require.NoError(t, err)
	sql, err := fs.ReadFile(fsys, name)
	require.NoError(t, err)
	return string(sql)
}

func TestFS(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "Weird-Schema"} {
		fsys, err := FS(schema)
		require.NoError(t, err)
		require.NoError(t, fstest.TestFS(fsys, "0001_init.up.sql", "0001_init.down.sql"))
		steps, err := load(fsys)
		require.NoError(t, err)
		require.Len(t, steps, Latest)
	}
	require.True(t, strings.HasPrefix(read(t, "", "0001_init.up.sql"),
		inTools+"CREATE SCHEMA IF NOT EXISTS \"pgfifo\";\n\n--"))
	sql := read(t, "Weird-Schema", "0001_init.up.sql")
	require.True(t, strings.HasPrefix(sql, inTools+"CREATE SCHEMA IF NOT EXISTS \"Weird-Schema\";\n\n--"))
	require.Contains(t, sql, `CREATE TABLE "Weird-Schema".jobs (`)
	require.NotContains(t, sql, "pgfifo")
}

// The other tools' files have the same statements; that the tools take them, the module in tools has seen.
func TestFilesOfTools(t *testing.T) {
	t.Parallel()
	const schema = "Weird-Schema"
	up, down := read(t, schema, "0001_init.up.sql"), read(t, schema, "0001_init.down.sql")

	fsys, err := GooseFS(schema)
	require.NoError(t, err)
	require.NoError(t, fstest.TestFS(fsys, "0001_init.sql"))
	text, err := fs.ReadFile(fsys, "0001_init.sql")
	require.NoError(t, err)
	require.Equal(t, "-- +goose Up\n-- +goose StatementBegin\n"+up+"-- +goose StatementEnd\n\n"+
		"-- +goose Down\n-- +goose StatementBegin\n"+down+"-- +goose StatementEnd\n", string(text))

	fsys, err = AtlasFS(schema)
	require.NoError(t, err)
	require.NoError(t, fstest.TestFS(fsys, "0001_init.sql", "atlas.sum"))
	text, err = fs.ReadFile(fsys, "0001_init.sql")
	require.NoError(t, err)
	require.Equal(t, up, string(text))
	require.NoError(t, os.CopyFS(t.TempDir(), fsys), "a command wants them on the disk")
}

// Whichever tool runs the files, the version is right, and Up and Down go on from there.
func TestFilesByHand(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "Weird-Schema"} {
		t.Run(schema, func(t *testing.T) {
			ctx, pool, cfg := t.Context(), newPool(t), &Config{Schema: schema}
			up, down := read(t, schema, "0001_init.up.sql"), read(t, schema, "0001_init.down.sql")

			exec(t, pool, up)
			requireVersion(t, pool, cfg, 1)
			require.NoError(t, Check(ctx, pool, schema))
			require.NoError(t, Up(ctx, pool, cfg))
			require.NoError(t, Down(ctx, pool, cfg))

			require.NoError(t, Up(ctx, pool, cfg))
			exec(t, pool, down)
			requireVersion(t, pool, cfg, 0)
			require.NoError(t, Down(ctx, pool, cfg))
			exec(t, pool, up)
			requireVersion(t, pool, cfg, 1)
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{}
	for name := range strings.FieldsSeq("0001_a.up.sql 0001_a.down.sql 0002_b.up.sql 0002_b.down.sql") {
		fsys[name] = &fstest.MapFile{Data: []byte(name)}
	}
	steps, err := load(fsys)
	require.NoError(t, err)
	require.Equal(t, []step{
		{file{"0001_a.up.sql", "0001_a.up.sql"}, file{"0001_a.down.sql", "0001_a.down.sql"}},
		{file{"0002_b.up.sql", "0002_b.up.sql"}, file{"0002_b.down.sql", "0002_b.down.sql"}},
	}, steps)
	delete(fsys, "0002_b.down.sql")
	_, err = load(fsys)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Each file is of a step: no version is missing, and none is there twice.
func TestFilesAreSteps(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(files, "*")
	require.NoError(t, err)
	require.Len(t, names, 2*Latest)
	for _, name := range names {
		require.Regexp(t, `^[0-9]{4}_[a-z0-9_]+\.(up|down)\.sql$`, name)
	}
	steps, err := load(files)
	require.NoError(t, err)
	require.Len(t, steps, Latest)
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
	require.Len(t, steps, Latest)
	for _, s := range steps {
		for _, f := range []file{s.up, s.down} {
			code := comment.ReplaceAllString(block.ReplaceAllString(f.sql, ""), "")
			require.Empty(t, forbidden.FindAllString(code, -1), f.name)
			require.True(t, strings.HasSuffix(f.sql, ";\n"), f.name)
		}
	}
}
