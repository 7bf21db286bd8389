package migrations

import (
	"io/fs"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

var tables = []string{
	"function block_group", "function enqueue", "function enqueue", "function enqueue", "function held_by_sessions",
	"function in_range", "function lives", "function replace_waiting", "function runs_here", "function schema_version",
	"function serves_from", "function take_from_session", "function with_failure",
	"relation attempt_marks", "relation attempt_marks_pkey",
	"relation dead_letters", "relation dead_letters_died_at", "relation dead_letters_pkey",
	"relation dedup_ids", "relation dedup_ids_expires", "relation dedup_ids_pkey",
	"relation fences", "relation fences_pkey", "relation fences_token_seq",
	"relation group_slots", "relation group_slots_pkey",
	"relation jobs", "relation jobs_due", "relation jobs_id_seq", "relation jobs_new", "relation jobs_pkey",
	"relation jobs_urgent", "relation keepers",
	"relation pauses", "relation pauses_pkey",
	"relation queue_groups", "relation queue_groups_pkey", "relation queues", "relation queues_pkey",
	"relation slots", "relation slots_pkey", "relation walk_requests",
}

func TestUpDownUp(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	requireVersion(t, pool, nil, 0)
	require.NoError(t, Down(ctx, pool, nil), "nothing to remove")

	for range 2 {
		require.NoError(t, Up(ctx, pool, nil))
		require.NoError(t, Up(ctx, pool, nil), "nothing to do")
		requireVersion(t, pool, nil, Latest)
		require.Equal(t, append(tables, "schema pgfifo"), objects(t, pool, "pgfifo"))
		require.Equal(t, Latest, query[int](t, pool, "SELECT pgfifo.schema_version()"))
		require.Equal(t, max(Latest-1, 1), query[int](t, pool, "SELECT pgfifo.serves_from()"))
		require.Equal(t, []string{"schema public"}, objects(t, pool, "public"), "nothing anywhere else")

		require.NoError(t, Down(ctx, pool, nil))
		require.NoError(t, Down(ctx, pool, nil))
		requireVersion(t, pool, nil, 0)
		require.Nil(t, objects(t, pool, "pgfifo"))
	}
}

func TestSchemas(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	names := []string{"", "Weird-Schema", `o"dd`, "it's", "select", "a.b", "pgfifo.pgfifo.", "$1", "ünï", "a\nb", "%s"}
	for i, name := range names {
		cfg := &Config{Schema: name}
		require.NoError(t, Up(ctx, pool, cfg), name)
		for j, other := range names {
			want := 0
			if j <= i {
				want = Latest
			}
			requireVersion(t, pool, &Config{Schema: other}, want)
		}
	}
	require.Equal(t, append(tables, `schema Weird-Schema`), objects(t, pool, "Weird-Schema"))

	require.NoError(t, Down(ctx, pool, nil))
	for _, name := range names[1:] {
		requireVersion(t, pool, &Config{Schema: name}, Latest)
		require.NoError(t, Check(ctx, pool, name))
		require.NoError(t, Down(ctx, pool, &Config{Schema: name}), name)
		require.Nil(t, objects(t, pool, name))
	}
}

func TestInvalidSchema(t *testing.T) {
	ctx, pool, cfg := t.Context(), newPool(t), &Config{Schema: "pg_fifo"}
	const want = `migrations: invalid config: Schema: invalid schema name: ` +
		`"pg_fifo": the prefix pg_ is PostgreSQL's own`
	require.EqualError(t, Up(ctx, pool, cfg), want)
	require.ErrorIs(t, Up(ctx, pool, cfg), ErrConfig)
	require.ErrorIs(t, Up(ctx, nil, nil), errNoPool)
	require.EqualError(t, Down(ctx, pool, cfg), want)
	require.EqualError(t, Check(ctx, pool, cfg.Schema), want)
	_, err := Version(ctx, pool, cfg)
	require.EqualError(t, err, want)
	for _, tool := range []func(string) (fs.FS, error){FS, GooseFS, AtlasFS} {
		_, err = tool(cfg.Schema)
		require.EqualError(t, err, want)
	}
}

func TestNoVersion(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	require.ErrorIs(t, To(ctx, pool, -1, nil), ErrNoVersion)
	require.ErrorIs(t, To(ctx, pool, Latest+1, nil), ErrNoVersion)
	requireVersion(t, pool, nil, 0)
}

func TestTooNew(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	require.NoError(t, newer(t, Latest+1).reach(ctx, pool, Latest+1))

	require.ErrorIs(t, Check(ctx, pool, ""), ErrTooNew)
	require.ErrorIs(t, Up(ctx, pool, nil), ErrTooNew)
	require.ErrorIs(t, Down(ctx, pool, nil), ErrTooNew)
	require.ErrorIs(t, To(ctx, pool, 0, nil), ErrTooNew)
	require.ErrorIs(t, Grant(ctx, pool, Roles{}, nil), ErrTooNew)
	requireVersion(t, pool, nil, Latest+1)
}

// The user's own objects in the schema stay, and with them the schema.
func TestDownKeepsWhatIsNotOurs(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	exec(t, pool, "CREATE SCHEMA pgfifo CREATE TABLE bun_migrations (id integer)")
	exec(t, pool, "CREATE TABLE schema_migrations (version bigint)")
	require.NoError(t, Up(ctx, pool, nil))
	require.NoError(t, Down(ctx, pool, nil))
	require.Equal(t, []string{"relation bun_migrations", "schema pgfifo"}, objects(t, pool, "pgfifo"))

	exec(t, pool, "DROP TABLE schema_migrations")
	cfg := &Config{Schema: "public"}
	require.NoError(t, Up(ctx, pool, cfg))
	require.NoError(t, Down(ctx, pool, cfg))
	require.Equal(t, []string{"schema public"}, objects(t, pool, "public"))
}

// An administrator made the schema; the role that migrates it may create no other, and drops only what it made.
func TestRestrictedRole(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	pool, role := db.pool(t), unique()
	admin(t, "CREATE ROLE "+role)
	t.Cleanup(func() { admin(t, "DROP ROLE "+role) })
	restricted := db.pool(t, "role", role)

	requireCode(t, Up(ctx, restricted, nil), "42501", `migrations: create schema "pgfifo": `)
	exec(t, pool, "CREATE SCHEMA pgfifo")
	requireCode(t, Up(ctx, restricted, nil), "42501", "migrations: 0001_init.up.sql: ")
	require.Equal(t, []string{"schema pgfifo"}, objects(t, pool, "pgfifo"))

	exec(t, pool, "GRANT CREATE, USAGE ON SCHEMA pgfifo TO "+role)
	require.NoError(t, Up(ctx, restricted, nil))
	require.NoError(t, Down(ctx, restricted, nil))
	require.Equal(t, []string{"schema pgfifo"}, objects(t, pool, "pgfifo"))
	exec(t, pool, "DROP SCHEMA pgfifo")

	// Without any privilege, what is there can be seen, and that there is nothing to do.
	require.NoError(t, Up(ctx, pool, nil))
	require.NoError(t, Check(ctx, restricted, ""))
	require.NoError(t, Up(ctx, restricted, nil))
}

// It is a default for the application's transactions, and not for these.
func TestReadOnly(t *testing.T) {
	roles, _ := newRoles(t)
	ctx, db := t.Context(), newDatabase(t)
	readOnly := db.pool(t, "default_transaction_read_only", "on")
	require.NoError(t, Up(ctx, readOnly, nil))
	require.NoError(t, Up(ctx, readOnly, nil), "nothing to do")
	require.NoError(t, Grant(ctx, readOnly, roles, nil))
	require.NoError(t, Down(ctx, readOnly, nil))
}

// Poolers and users choose the mode; ours must work in each.
func TestExecModes(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		cfg, err := pgxpool.ParseConfig(server.URL)
		require.NoError(t, err)
		cfg.ConnConfig.Database = db.name
		cfg.ConnConfig.DefaultQueryExecMode = mode
		pool := open(t, cfg)
		require.ErrorIs(t, Check(ctx, pool, ""), ErrNotMigrated, mode)
		require.NoError(t, Up(ctx, pool, nil), mode)
		require.NoError(t, Check(ctx, pool, ""), mode)
		require.NoError(t, Down(ctx, pool, nil), mode)
	}
}

// requireCode requires a server's error with a code, and a text before it that says where.
func requireCode(t *testing.T, err error, code, prefix string) {
	t.Helper()
	var pgErr *pgconn.PgError
	require.ErrorAs(t, err, &pgErr)
	require.Equal(t, code, pgErr.Code)
	require.Equal(t, prefix+pgErr.Error(), err.Error())
}

var _ = []querier{(*pgxpool.Pool)(nil), (*pgxpool.Conn)(nil), (*pgx.Conn)(nil), pgx.Tx(nil)}
