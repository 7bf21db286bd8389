package migrations

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// newRoles returns names of the test's own, and a prefix that they share. They are gone when it ends: to be called
// before newDatabase, so that the rights go first.
func newRoles(t *testing.T) (Roles, string) {
	t.Helper()
	prefix := unique()
	r := Roles{
		Producer: prefix + "_producer", Worker: prefix + "-worker", Reader: prefix + ".Reader",
		Admin: prefix + "_admin",
	}
	t.Cleanup(func() {
		for _, name := range []string{r.Producer, r.Worker, r.Reader, r.Admin} {
			admin(t, `DROP ROLE IF EXISTS "`+name+`"`)
		}
	})
	return r, prefix
}

func TestRoleNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"a b", `a"b`, "a'b", "a$b", "$roles$", "a;b", "ä", "1a", "-a", "a\x00", strings.Repeat("a", 64),
		"pg_monitor", "PG_x", "public", "Public", "none",
	} {
		for _, r := range []Roles{{Producer: name}, {Worker: name}, {Reader: name}, {Admin: name}} {
			_, err := RolesSQL("", r)
			require.ErrorIs(t, err, ErrRole, name)
		}
	}
	_, err := RolesSQL("public", Roles{})
	require.ErrorIs(t, err, ErrRole, "it is not ours to close")
	_, err = RolesSQL("pg_x", Roles{})
	require.ErrorContains(t, err, "invalid schema name")

	sql, err := RolesSQL("", Roles{})
	require.NoError(t, err)
	for _, want := range []string{
		`'pgfifo_worker'`, ` TO "pgfifo_worker";`, `ON SCHEMA "pgfifo" TO`, `ON "pgfifo".jobs TO "pgfifo_producer";`,
	} {
		require.Contains(t, sql, want)
	}
	sql, err = RolesSQL(`pgfifo_reader'pgfifo.`, Roles{
		Producer: "pgfifo_worker", Worker: strings.Repeat("w", 63), Reader: "a.b", Admin: "A-1_",
	})
	require.NoError(t, err)
	require.Contains(t, sql, `ARRAY['pgfifo_worker', '`+strings.Repeat("w", 63)+`', 'a.b', 'A-1_']`)
	require.Contains(t, sql, `ON "pgfifo_reader'pgfifo.".jobs TO "pgfifo_worker";`)
	require.Contains(t, sql, `ON SCHEMA "pgfifo_reader'pgfifo." FROM PUBLIC, "pgfifo_worker", "www`)
	require.NotContains(t, strings.ReplaceAll(sql, `"pgfifo_reader'pgfifo."`, ""), "pgfifo.")
}

// What the statements leave is the same whoever runs them, how often, and in whose tool.
func TestGrantIsIdempotent(t *testing.T) {
	roles, prefix := newRoles(t)
	ctx, pool := t.Context(), newPool(t)
	require.ErrorIs(t, Grant(ctx, pool, roles, nil), ErrNotMigrated)
	require.NoError(t, Up(ctx, pool, nil))
	require.NoError(t, Grant(ctx, pool, roles, nil))
	const rights = `SELECT string_agg(concat(relname, relacl, attname, attacl), E'\n' ORDER BY relname, attname)
		FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attacl <> '{}'
		WHERE c.relnamespace = 'pgfifo'::regnamespace`
	want := query[string](t, pool, rights)
	require.Contains(t, want, roles.Producer)
	require.NoError(t, Grant(ctx, pool, roles, nil))
	require.Equal(t, want, query[string](t, pool, rights))
	sql, err := RolesSQL("", roles)
	require.NoError(t, err)
	exec(t, pool, sql)
	require.Equal(t, want, query[string](t, pool, rights))
	require.Equal(t, 4, query[int](t, pool, `SELECT count(*) FROM pg_roles
		WHERE starts_with(rolname, $1) AND NOT rolcanlogin AND NOT rolsuper AND NOT rolcreaterole`, prefix))

	require.NoError(t, Down(ctx, pool, nil))
	require.ErrorIs(t, Grant(ctx, pool, roles, nil), ErrNotMigrated)
	require.NoError(t, Up(ctx, pool, nil), "and again, with roles that are there")
	require.NoError(t, Grant(ctx, pool, roles, nil))
	require.Equal(t, want, query[string](t, pool, rights))
}

// Neither needs a superuser: the owner grants, and needs CREATEROLE only for roles that are not there. Who owns a part
// would have granted a part, with a warning that nobody sees.
func TestGrantByOwner(t *testing.T) {
	owner := unique()
	admin(t, "CREATE ROLE "+owner)
	t.Cleanup(func() { admin(t, "DROP ROLE "+owner) })
	roles, _ := newRoles(t)
	others, _ := newRoles(t)
	ctx, db, other := t.Context(), newDatabase(t), createDatabase(t)
	pool := db.pool(t)
	exec(t, pool, "CREATE SCHEMA pgfifo")
	exec(t, pool, "GRANT CREATE, USAGE ON SCHEMA pgfifo TO "+owner)
	mine := db.pool(t, "role", owner)
	require.NoError(t, Up(ctx, mine, nil))
	require.ErrorIs(t, Grant(ctx, mine, roles, nil), ErrNotOwner, "not of the schema")
	exec(t, pool, "ALTER SCHEMA pgfifo OWNER TO "+owner)
	requireCode(t, Grant(ctx, mine, roles, nil), "42501", `migrations: grant roles in schema "pgfifo": `)
	exec(t, pool, "ALTER TABLE pgfifo.fences OWNER TO CURRENT_USER")
	require.ErrorIs(t, Grant(ctx, mine, roles, nil), ErrNotOwner, "not of each table")
	exec(t, pool, "ALTER TABLE pgfifo.fences OWNER TO "+owner)
	exec(t, pool, "ALTER DOMAIN pgfifo.count OWNER TO CURRENT_USER")
	require.ErrorIs(t, Grant(ctx, mine, roles, nil), ErrNotOwner, "nor of each domain")
	exec(t, pool, "ALTER DOMAIN pgfifo.count OWNER TO "+owner)
	const function = "ALTER FUNCTION pgfifo.take_from_session(text, text) OWNER TO "
	exec(t, pool, function+"CURRENT_USER")
	require.ErrorIs(t, Grant(ctx, mine, roles, nil), ErrNotOwner, "nor of each function")
	exec(t, pool, function+owner)
	exec(t, pool, "CREATE TABLE pgfifo.theirs ()") // which Grant has nothing to do with
	exec(t, pool, "CREATE FUNCTION pgfifo.enqueue(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'")
	for _, name := range []string{roles.Producer, roles.Worker, roles.Reader, roles.Admin} {
		exec(t, pool, `CREATE ROLE "`+name+`"`)
	}
	require.NoError(t, Grant(ctx, mine, roles, nil))
	require.True(t, query[bool](t, pool, `SELECT has_column_privilege($1, 'pgfifo.jobs', 'payload', 'INSERT')
		AND NOT has_any_column_privilege($1, 'pgfifo.jobs', 'UPDATE')`, roles.Producer))
	require.NoError(t, Grant(ctx, pool, roles, nil), "nor does a superuser spoil it")
	require.NoError(t, Grant(ctx, mine, roles, nil))

	exec(t, pool, "ALTER ROLE "+owner+" CREATEROLE")
	admin(t, "GRANT CREATE ON DATABASE "+other.name+" TO "+owner)
	there := other.pool(t, "role", owner)
	require.NoError(t, Up(ctx, there, nil))
	require.NoError(t, Grant(ctx, there, others, nil))
}
