package pgtest

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/internal/schema"
)

const (
	// Queue is the one that Enqueue uses.
	Queue = "q"
	// Patient is how long anything may take that should happen soon.
	Patient = 30 * time.Second
)

// ContraryDefaults are settings of a database that the library must not depend on.
var ContraryDefaults = []string{
	"default_transaction_isolation = 'repeatable read'",
	"default_transaction_isolation = 'serializable'",
	"default_transaction_read_only = on",
	"default_transaction_deferrable = on",
}

const (
	// FullDisk has the server refuse to mark an attempt, as it does when it has no room for another page.
	FullDisk = "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE disk_full; END$$; " +
		"CREATE TRIGGER full_disk BEFORE INSERT ON pgfifo.attempt_marks FOR EACH ROW EXECUTE FUNCTION full_disk()"
	// Room has it mark attempts again.
	Room = "DROP TRIGGER full_disk ON pgfifo.attempt_marks"
)

// A DB is one test's database, and a pool on it.
type DB struct {
	*testing.T
	URL    string
	Pool   *pgxpool.Pool
	Schema schema.Name
}

// New returns a migrated database in which nothing has happened.
func New(t *testing.T) *DB {
	t.Helper()
	url, pool := Lend(t)
	return &DB{T: t, URL: url, Pool: pool}
}

// At returns the database with that URL.
func At(t *testing.T, url string) *DB {
	t.Helper()
	return &DB{T: t, URL: url, Pool: Connect(t, url)}
}

// Exec runs statements.
func (db *DB) Exec(sql string, args ...any) {
	db.Helper()
	_, err := db.Pool.Exec(db.Context(), sql, args...)
	require.NoError(db, err)
}

// Alter changes a setting of the database, for connections made from now on.
func (db *DB) Alter(setting string) {
	db.Helper()
	db.Exec("DO $$ BEGIN EXECUTE format($q$ALTER DATABASE %I SET " + setting + "$q$, current_database()); END $$")
	db.Pool.Reset()
}

// One returns a query's only value.
func One[T any](db *DB, sql string, args ...any) T {
	db.Helper()
	rows, _ := db.Pool.Query(db.Context(), sql, args...)
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	require.NoError(db, err)
	return v
}

// Column returns a query's only column.
func Column[T any](db *DB, sql string, args ...any) []T {
	db.Helper()
	rows, _ := db.Pool.Query(db.Context(), sql, args...)
	v, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(db, err)
	return v
}

// Statement reads one of package fifo's, for the tests of a package in internal/ that fifo imports.
func (db *DB) Statement(file string) string {
	db.Helper()
	sql, err := os.ReadFile("../../fifo/sql/" + file + ".sql")
	require.NoError(db, err)
	return db.Schema.Qualify(string(sql))
}

// Enqueue adds n jobs to each of the groups of Queue, in turn, and returns their ids. It makes the groups' rows too.
func (db *DB) Enqueue(n int, ids ...string) []int64 {
	db.Helper()
	jobs := Column[int64](db, db.Schema.Qualify(`
		INSERT INTO pgfifo.jobs (queue, group_id, payload)
		SELECT $1, g.id, '' FROM generate_series(1, $3::integer) i, unnest($2::text[]) WITH ORDINALITY g (id, n)
		ORDER BY i, g.n RETURNING id`), Queue, ids, n)
	db.Exec(db.Schema.Qualify(`
		INSERT INTO pgfifo.queue_groups (queue, group_id) SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING`),
		Queue, ids)
	return jobs
}

// Crowd adds a job to each of n groups of Queue, g00001 and so on, and does not make their rows.
func (db *DB) Crowd(n int) {
	db.Helper()
	db.Exec("INSERT INTO pgfifo.jobs (queue, group_id, payload) "+
		"SELECT $1, 'g' || to_char(i, 'FM00000'), '' FROM generate_series(1, $2::integer) i", Queue, n)
}

// Locked returns which rows somebody has locked: groups by their ids, jobs as "group/job". It locks the others for a
// moment, and so overwrites what evidence they bear.
func (db *DB) Locked() []string {
	db.Helper()
	var locked []string
	for _, all := range []string{
		"SELECT group_id FROM pgfifo.queue_groups",
		"SELECT group_id || '/' || id FROM pgfifo.jobs",
	} {
		free := Column[string](db, db.Schema.Qualify(all)+" FOR NO KEY UPDATE SKIP LOCKED")
		for _, row := range Column[string](db, db.Schema.Qualify(all)+" ORDER BY 1") {
			if !slices.Contains(free, row) {
				locked = append(locked, row)
			}
		}
	}
	return locked
}

// Active reports whether a statement is under way in the session.
func (db *DB) Active(pid uint32) bool {
	return One[bool](db, "SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND state = 'active'", pid)
}

// Blocked reports whether the session waits for a lock of another.
func (db *DB) Blocked(pid uint32) bool {
	return One[bool](db, "SELECT cardinality(pg_blocking_pids($1)) > 0", pid)
}

// Until waits for a condition that must come true soon. It is checked by the test's own goroutine.
func (db *DB) Until(cond func() bool) {
	db.Helper()
	require.True(db, Wait(Patient, cond), "it did not happen")
}

// Terminate ends a session from the server's side, and waits for its end.
func (db *DB) Terminate(pid uint32) {
	db.Helper()
	db.Exec("SELECT pg_terminate_backend($1)", pid)
	db.Until(func() bool { return One[bool](db, "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $1", pid) })
}

// Mutate returns the statement with one thing broken.
func Mutate(t *testing.T, sql, good, bad string) string {
	t.Helper()
	broken := strings.Replace(sql, good, bad, 1)
	require.NotEqual(t, sql, broken, "the statement has no %q", good)
	return broken
}
