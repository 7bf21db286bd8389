package fifo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// No parameter of a statement has a domain of bytea for its type: lib/pq would send it as a text with escapes.
func TestBytesAreBytea(t *testing.T) {
	b := newBed(t)
	conn, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	files, err := filepath.Glob("sql/*.sql")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if file == "sql/enqueue_new.sql" { // the end of one
			continue
		}
		sql, err := os.ReadFile(file)
		require.NoError(t, err)
		prepared, err := conn.Conn().Prepare(t.Context(), "", string(sql))
		require.NoError(t, err, file)
		require.Empty(t, query[[]string](b, `SELECT coalesce(array_agg(t.typname::text), '{}') FROM pg_type t
			WHERE t.typbasetype = 'bytea'::regtype AND t.oid = ANY ($1::oid[])`, prepared.ParamOIDs), file)
	}
}
