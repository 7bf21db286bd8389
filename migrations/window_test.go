package migrations

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// newer returns the migrator of a release with one step more, and a schema that then serves releases from a version on.
func newer(t *testing.T, servesFrom int) *migrator {
	t.Helper()
	steps, err := load(files)
	require.NoError(t, err)
	fsys := fstest.MapFS{}
	for _, s := range steps {
		for _, f := range []file{s.up, s.down} {
			fsys[f.name] = &fstest.MapFile{Data: []byte(f.sql)}
		}
	}
	for name, text := range nextStep(servesFrom) {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	m, err := newMigrator(fsys, nil)
	require.NoError(t, err)
	return m
}

// nextStep returns the files of a step behind the latest one.
func nextStep(servesFrom int) map[string]string {
	record := func(version, servesFrom int) string {
		return fmt.Sprintf(`
CREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer LANGUAGE sql AS 'SELECT %d';
CREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql AS 'SELECT %d';
`, version, servesFrom)
	}
	name := fmt.Sprintf("%04d_next.", Latest+1)
	return map[string]string{
		name + "up.sql":   "ALTER TABLE pgfifo.jobs ADD COLUMN next integer;" + record(Latest+1, servesFrom),
		name + "down.sql": "ALTER TABLE pgfifo.jobs DROP COLUMN next;" + record(Latest, max(Latest-1, 1)),
	}
}

// A newer release has migrated, and the schema serves this one: it works, and leaves the schema as it is.
func TestNewerSchemaInTheWindow(t *testing.T) {
	roles, _ := newRoles(t)
	ctx, pool := t.Context(), newPool(t)
	next := newer(t, Latest)
	require.NoError(t, next.reach(ctx, pool, Latest+1))
	exec(t, pool, `CREATE ROLE "`+roles.Worker+`"`)
	exec(t, pool, `GRANT INSERT (next) ON pgfifo.jobs TO "`+roles.Worker+`"`)

	require.NoError(t, Check(ctx, pool, ""))
	require.NoError(t, Up(ctx, pool, nil))
	require.NoError(t, To(ctx, pool, Latest, nil), "which is Up")
	require.NoError(t, Grant(ctx, pool, roles, nil))
	require.True(t, query[bool](t, pool, "SELECT has_column_privilege($1, 'pgfifo.jobs', 'next', 'INSERT')",
		roles.Worker), "a right that the newer release has given")
	require.ErrorIs(t, Down(ctx, pool, nil), ErrTooNew)
	require.ErrorIs(t, Down(ctx, pool, &Config{DropJobs: true}), ErrTooNew)
	requireVersion(t, pool, nil, Latest+1)
	require.Equal(t, Latest, query[int](t, pool, "SELECT pgfifo.serves_from()"))

	require.NoError(t, next.reach(ctx, pool, Latest))
	require.NoError(t, Down(ctx, pool, nil))
	require.Nil(t, objects(t, pool, "pgfifo"))
}

// An older and a newer release start at once, on an empty database: both succeed, whoever is first.
func TestUpOfTwoReleases(t *testing.T) {
	db, next := newDatabase(t), newer(t, Latest)
	pools := make([]*pgxpool.Pool, 10)
	for i := range pools {
		pools[i] = db.pool(t)
		require.NoError(t, pools[i].Ping(t.Context()))
	}
	together(t, pools, func(ctx context.Context, pool *pgxpool.Pool) error {
		if slices.Index(pools, pool)%2 == 0 {
			return next.reach(ctx, pool, Latest+1)
		}
		return Up(ctx, pool, nil)
	})
	requireVersion(t, pools[0], nil, Latest+1)
}

// A step that does not serve even its own release must not pass for done.
func TestStepThatServesNobody(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	require.NoError(t, Up(ctx, pool, nil))
	require.EqualError(t, newer(t, Latest+2).reach(ctx, pool, Latest+1), fmt.Sprintf(
		"migrations: %04d_next.up.sql: version %d serves releases from %d on", Latest+1, Latest+1, Latest+2))
	requireVersion(t, pool, nil, Latest)
}

// forgets returns which of the functions that a file behind the first step must replace it does not.
func forgets(sql string) (names []string) {
	for _, name := range []string{"schema_version", "serves_from"} {
		replaced := regexp.MustCompile(`CREATE OR REPLACE FUNCTION pgfifo\.` + name +
			`\(\) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT [1-9][0-9]*';`)
		if !replaced.MatchString(sql) {
			names = append(names, name)
		}
	}
	return names
}

// Each later step says both numbers anew, and a schema serves the release before at least.
func TestStepsSayWhomTheyServe(t *testing.T) {
	steps, err := load(files)
	require.NoError(t, err)
	for _, s := range steps[1:] {
		require.Empty(t, forgets(s.up.sql), s.up.name)
		require.Empty(t, forgets(s.down.sql), s.down.name)
	}
	ctx, pool := t.Context(), newPool(t)
	m, err := newMigrator(files, nil)
	require.NoError(t, err)
	up := make(map[int]state)
	for version := range Latest + 1 {
		require.NoError(t, m.reach(ctx, pool, version))
		s, err := readState(ctx, pool, m.name)
		require.NoError(t, err)
		if version > 1 {
			require.Less(t, s.servesFrom, version, "the release before is served")
		}
		up[version] = s
	}
	for _, version := range slices.Backward(slices.Sorted(maps.Keys(up))) {
		require.NoError(t, m.reach(ctx, pool, version))
		s, err := readState(ctx, pool, m.name)
		require.NoError(t, err)
		require.Equal(t, up[version], s, "down is the way back")
	}
}

func TestForgets(t *testing.T) {
	t.Parallel()
	both := "\nCREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL " +
		"SAFE AS 'SELECT 2';\nCREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql IMMUTABLE " +
		"PARALLEL SAFE AS 'SELECT 1';\n"
	require.Empty(t, forgets(both))
	first, _, _ := strings.Cut(both, ";")
	require.Equal(t, []string{"serves_from"}, forgets(first+";\n"))
	require.Equal(t, []string{"schema_version", "serves_from"}, forgets("SELECT 1;\n"))
}
