package pgtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m) }

// alone has a database to itself, although tests hand theirs on.
func alone(t *testing.T) *lent {
	t.Helper()
	l, err := newLent(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.drop()) })
	return l
}

// A database that was worked with is as good as new.
func TestRenew(t *testing.T) {
	t.Parallel()
	l := alone(t)
	db := &DB{T: t, URL: l.url, Pool: l.pool}
	for range 2 {
		require.Equal(t, []int64{1, 2}, db.Enqueue(1, "a", "b"))
		db.Exec(`CREATE TABLE mine (n bigserial UNIQUE, why text);
			CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER mine AFTER INSERT ON pgfifo.queues EXECUTE FUNCTION mine()`)
		db.Exec("SET work_mem = '1MB'; LISTEN x; SELECT pg_advisory_lock(1)")
		require.True(t, l.renew())
		require.Zero(t, One[int](db, "SELECT count(*) FROM pgfifo.jobs"))
		require.Zero(t, One[int](db, "SELECT count(*) FROM pgfifo.queue_groups"))
		require.True(t, One[bool](db, "SELECT to_regclass('mine') IS NULL AND to_regproc('mine') IS NULL"))
		require.Zero(t, One[int](db, "SELECT count(*) FROM pg_listening_channels()"))
		require.Zero(t, One[int](db, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = "+
			"(SELECT oid FROM pg_database WHERE datname = current_database())"))
		require.NotEqual(t, "1MB", One[string](db, "SHOW work_mem"))
	}
}

// One in which more than rows was changed, or that somebody still uses, is not.
func TestNoRenewal(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(db *DB){
		"a table of ours": func(db *DB) { db.Exec("CREATE TABLE pgfifo.mine ()") },
		"a view":          func(db *DB) { db.Exec("CREATE TABLE mine (); CREATE VIEW yours AS SELECT FROM mine") },
		"a dropped index": func(db *DB) { db.Exec("DROP INDEX pgfifo.jobs_due") },
		"a column":        func(db *DB) { db.Exec("ALTER TABLE pgfifo.jobs ADD mine text") },
		"a default":       func(db *DB) { db.Exec("ALTER TABLE pgfifo.jobs ALTER run_at SET DEFAULT now()") },
		"a trigger":       func(db *DB) { db.Exec("ALTER TABLE pgfifo.jobs DISABLE TRIGGER ALL") },
		"a function": func(db *DB) {
			db.Exec("CREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql AS 'SELECT 2'")
		},
		"a right":    func(db *DB) { db.Exec("GRANT SELECT ON pgfifo.jobs TO PUBLIC") },
		"a setting":  func(db *DB) { db.Alter("work_mem = '1MB'") },
		"statistics": func(db *DB) { db.Enqueue(1, "g"); db.Exec("ANALYZE pgfifo.jobs") },
		"a vacuum":   func(db *DB) { db.Enqueue(1, "g"); db.Exec("VACUUM (FREEZE) pgfifo.jobs") },
		"a limit": func(db *DB) {
			db.Exec("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I CONNECTION LIMIT 50', current_database()); END $$")
		},
		"a temporary table": func(db *DB) { db.Exec("CREATE TEMPORARY TABLE mine ()") },
		"a stranger":        func(db *DB) { db.Session() },
		"a transaction": func(db *DB) {
			c, err := db.Pool.Acquire(db.Context())
			require.NoError(db, err)
			db.Cleanup(c.Release)
		},
		"a closed pool": func(db *DB) { db.Pool.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := alone(t)
			change(&DB{T: t, URL: l.url, Pool: l.pool})
			require.False(t, l.renew())
		})
	}
}
