package migrations

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/schema"
)

func TestCheck(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	const schemaName = "Jobs"

	tx, err := pool.Begin(ctx)
	require.NoError(t, err)
	err = Check(ctx, tx, schemaName)
	require.ErrorIs(t, err, ErrNotMigrated)
	require.EqualError(t, err, `migrations: not migrated: schema "Jobs" is at version 0, this release needs 1: `+
		`run migrations.Up, or your migration tool with the files of migrations.FS`)
	require.NoError(t, tx.Commit(ctx), "it leaves a transaction usable")

	require.NoError(t, Up(ctx, pool, &Config{Schema: schemaName}))
	require.NoError(t, Check(ctx, pool, schemaName))
	require.ErrorIs(t, Check(ctx, pool, ""), ErrNotMigrated, "another schema")
}

// There is no version between none and the first yet: the database has no part in this.
func TestStates(t *testing.T) {
	t.Parallel()
	name, err := schema.Parse("Jobs")
	require.NoError(t, err)
	for _, x := range []struct {
		state
		want error
	}{
		{state{version: 0, servesFrom: 0}, ErrNotMigrated},
		{state{version: 2, servesFrom: 1}, ErrTooOld},
		{state{version: 3, servesFrom: 1}, nil},
		{state{version: 3, servesFrom: 3}, nil},
		{state{version: 4, servesFrom: 2}, nil},
		{state{version: 4, servesFrom: 3}, nil},
		{state{version: 4, servesFrom: 4}, ErrTooNew},
		{state{version: 9, servesFrom: 3}, nil}, // whom a schema serves is for its steps to say
		{state{version: 9, servesFrom: 4}, ErrTooNew},
	} {
		require.ErrorIs(t, x.check(name, 3), x.want, "%+v", x.state)
	}
	older, newer := state{version: 2, servesFrom: 1}, state{version: 17, servesFrom: 16}
	require.EqualError(t, older.check(name, 3), `migrations: schema too old: schema "Jobs" is at version 2, `+
		`this release needs 3: run migrations.Up, or your migration tool with the files of migrations.FS`)
	require.EqualError(t, newer.check(name, 1), `migrations: schema too new: schema "Jobs" is at version 17, `+
		`and serves releases that know version 16; this one knows 1: use a newer release of github.com/pgfifo/pgfifo`)
}

// pg_restore makes keys and triggers last, so a worker that is started meanwhile must not begin. Nor may one in a
// schema that was renamed: the functions in it would work in another one.
func TestNotIntact(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	pool := db.pool(t)
	require.NoError(t, Up(ctx, pool, nil))
	require.NoError(t, Up(ctx, pool, &Config{Schema: "Jobs"}))
	refused := func(change, schemaName, text string) {
		t.Helper()
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback(ctx)) }()
		_, err = tx.Exec(ctx, change)
		require.NoError(t, err, change)
		err = Check(ctx, tx, schemaName)
		require.ErrorIs(t, err, ErrNotIntact, change)
		require.EqualError(t, err, "migrations: schema not intact: "+text, change)
	}
	const restore = "wait until its restore has ended; if that has failed, restore again"
	tables, err := pool.Query(ctx,
		"SELECT relname FROM pg_class WHERE relnamespace = 'pgfifo'::regnamespace AND relkind = 'r'")
	require.NoError(t, err)
	names, err := pgx.CollectRows(tables, pgx.RowTo[string])
	require.NoError(t, err)
	require.Len(t, names, 10)
	for _, name := range names {
		refused("ALTER TABLE pgfifo."+name+" DROP CONSTRAINT "+name+"_pkey", "",
			`in schema "pgfifo" these lack their primary key or trigger: `+name+`: `+restore)
	}
	refused(`DROP TRIGGER request_walk ON "Jobs".pauses; DROP TRIGGER draw_after_xid ON "Jobs".jobs`, "Jobs",
		`in schema "Jobs" these lack their primary key or trigger: jobs, pauses: `+restore)
	const renamed = `schema %q was renamed, by ALTER SCHEMA or in the text of a dump, and not all of its ` +
		`functions work in it: rename it back, or restore it under its old name`
	refused("ALTER SCHEMA pgfifo RENAME TO other", "other", fmt.Sprintf(renamed, "other"))
	require.NoError(t, Up(ctx, pool, &Config{Schema: `a"b`}))
	refused(`ALTER SCHEMA "a""b" RENAME TO b`, "b", fmt.Sprintf(renamed, "b"))
	refused(`DROP SCHEMA pgfifo CASCADE; ALTER SCHEMA "Jobs" RENAME TO pgfifo`, "", fmt.Sprintf(renamed, "pgfifo"))
	exec(t, pool, "ALTER SCHEMA pgfifo RENAME TO other")
	require.ErrorIs(t, Up(ctx, pool, &Config{Schema: "other"}), ErrNotIntact)
	exec(t, pool, `ALTER TABLE "Jobs".fences DROP CONSTRAINT fences_pkey`) // as a restore that has not ended
	require.ErrorIs(t, Up(ctx, pool, &Config{Schema: "Jobs"}), ErrNotIntact)
}

// A function of the user's that has the name of one of the library's is none of them.
func TestIntactBesideAForeignFunction(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	require.NoError(t, Up(ctx, pool, nil))
	exec(t, pool, `CREATE FUNCTION pgfifo.replace_waiting(text, text, text, text, text, text) RETURNS void
		LANGUAGE sql AS 'SELECT'`)
	require.NoError(t, Check(ctx, pool, ""))
}

// Texts of errors are stored, and may be in any script.
func TestEncoding(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		db := createDatabase(t, "ENCODING '"+encoding+"' LOCALE 'C' TEMPLATE template0")
		pool := db.pool(t)
		for name, err := range map[string]error{"Up": Up(ctx, pool, nil), "Check": Check(ctx, pool, "")} {
			require.ErrorIs(t, err, ErrEncoding, name)
			require.EqualError(t, err, "migrations: the database's encoding is not UTF8 but "+encoding+
				": CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0 makes one that fits", name)
		}
		var there bool
		require.NoError(t, pool.QueryRow(ctx, "SELECT to_regnamespace('pgfifo') IS NOT NULL").Scan(&there))
		require.False(t, there, "nothing was changed")
	}
}

// In another encoding of the connection the schema would get another name.
func TestClientEncoding(t *testing.T) {
	roles, _ := newRoles(t)
	ctx, db, cfg := t.Context(), newDatabase(t), &Config{Schema: "ünï"}
	utf8 := db.pool(t, "client_encoding", "unicode")
	refused := func() {
		t.Helper()
		for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
			pool := db.pool(t, "client_encoding", encoding)
			for name, err := range map[string]error{
				"Up": Up(ctx, pool, cfg), "Grant": Grant(ctx, pool, roles, cfg), "Down": Down(ctx, pool, cfg),
				"Check": Check(ctx, pool, cfg.Schema),
			} {
				require.ErrorIs(t, err, conforming.Err, name)
				require.ErrorContains(t, err, "client_encoding is "+encoding, name)
			}
		}
	}
	refused()
	require.Nil(t, objects(t, utf8, cfg.Schema))
	require.NoError(t, Up(ctx, utf8, cfg))
	refused()
	require.Equal(t, 1, query[int](t, utf8, "SELECT count(*) FROM pg_proc WHERE proname = 'schema_version'"))
	requireVersion(t, utf8, cfg, Latest)
}

// A function of the user's that happens to have the name is no version.
func TestCheckForeignFunction(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	exec(t, pool, `
		CREATE FUNCTION public.schema_version() RETURNS text LANGUAGE sql AS 'SELECT ''1''::text';
		CREATE FUNCTION public.schema_version(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';`)
	require.ErrorIs(t, Check(ctx, pool, "public"), ErrNotMigrated)
	requireCode(t, Up(ctx, pool, &Config{Schema: "public"}), "42723", "migrations: 0001_init.up.sql: ")
}

// A migration that is under way holds nobody up who only wants to know the version.
func TestCheckDoesNotWait(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	migrating, pool := db.pool(t), db.pool(t, "lock_timeout", "1")
	require.NoError(t, Up(ctx, pool, nil))

	tx := begin(t, migrating, record(2))
	require.NoError(t, Check(ctx, pool, ""))
	_, err := tx.Exec(ctx, "DROP FUNCTION pgfifo.schema_version()")
	require.NoError(t, err)
	require.NoError(t, Check(ctx, pool, ""))
}
