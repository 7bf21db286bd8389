package migrations

import (
	"io/fs"
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
	require.True(t, strings.HasPrefix(read(t, "", "0001_init.up.sql"), "CREATE SCHEMA IF NOT EXISTS \"pgfifo\";\n\n--"))
	sql := read(t, "Weird-Schema", "0001_init.up.sql")
	require.True(t, strings.HasPrefix(sql, "CREATE SCHEMA IF NOT EXISTS \"Weird-Schema\";\n\n--"))
	require.Contains(t, sql, `CREATE TABLE "Weird-Schema".jobs (`)
	sql = strings.ReplaceAll(sql, "'pgfifo '", "") // of a lock's key
	require.NotContains(t, sql, "pgfifo")
}

// Whichever tool runs the files, the version is right, and Up and Down go on from there.
func TestFilesByHand(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{"", "Weird-Schema"} {
		t.Run(schema, func(t *testing.T) {
			t.Parallel()
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
