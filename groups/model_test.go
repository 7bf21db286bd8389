package groups

import (
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/pgfifo/pgfifo/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A columnOf is what a model and the catalog both know of one.
type columnOf struct {
	Name    string
	Type    string
	NotNull bool
	Key     bool
	Default bool
}

// The model is what the migrations make: names, types, nullability, keys and defaults.
func TestModelMatchesTheMigrations(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	types := map[string]string{
		"VARCHAR": "text", "TIMESTAMPTZ": "timestamp with time zone", "BIGINT": "bigint", "INTEGER": "integer",
	}
	table := pgdialect.New().Tables().Get(reflect.TypeFor[QueueGroup]())
	var modelled []columnOf
	for _, f := range table.Fields {
		modelled = append(modelled, columnOf{
			f.Name, types[f.CreateTableSQLType], f.NotNull || f.IsPK, f.IsPK, f.SQLDefault != "",
		})
	}
	rows, err := pool.Query(t.Context(), `
		SELECT c.column_name, c.data_type, c.is_nullable = 'NO', k.column_name IS NOT NULL,
		       coalesce(c.column_default, '') = 'statement_timestamp()'
		FROM information_schema.columns c
		LEFT JOIN information_schema.table_constraints p
		  ON p.table_schema = c.table_schema AND p.table_name = c.table_name AND p.constraint_type = 'PRIMARY KEY'
		LEFT JOIN information_schema.key_column_usage k
		  ON k.constraint_schema = p.constraint_schema AND k.constraint_name = p.constraint_name
		  AND k.column_name = c.column_name
		WHERE c.table_schema || '.' || c.table_name = $1
		ORDER BY c.ordinal_position`, table.Name)
	require.NoError(t, err)
	migrated, err := pgx.CollectRows(rows, pgx.RowToStructByPos[columnOf])
	require.NoError(t, err)
	require.NotEmpty(t, migrated, table.Name)
	require.Equal(t, migrated, modelled, table.Name)
}

// It can be written and read with bun as it is.
func TestModelRoundTrip(t *testing.T) {
	t.Parallel()
	db := bun.NewDB(stdlib.OpenDBFromPool(pgtest.Pool(t)), pgdialect.New())
	g, read := QueueGroup{Queue: "q", GroupID: "é '\" ?"}, QueueGroup{}
	_, err := db.NewInsert().Model(&g).Returning("*").Exec(t.Context())
	require.NoError(t, err)
	require.NoError(t, db.NewSelect().Model(&read).Scan(t.Context()))
	require.Equal(t, g, read)
}
