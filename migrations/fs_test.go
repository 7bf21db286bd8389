package migrations

import (
	"io/fs"
	"os"
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
	sql = strings.ReplaceAll(sql, "'pgfifo '", "") // of a lock's key
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
