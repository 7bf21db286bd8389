package migrations

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// record is the statement with which a file records a version. OR REPLACE, as every file but the first has it.
func record(version int) string {
	return fmt.Sprintf(";CREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer "+
		"LANGUAGE sql AS 'SELECT %d'", version)
}

// fake returns a migrator whose steps up execute the statements, one each, and whose steps down nothing.
func fake(t *testing.T, cfg *Config, statements ...string) *migrator {
	t.Helper()
	fsys := fstest.MapFS{}
	for i, sql := range statements {
		down := record(i)
		if i == 0 {
			down = "DROP FUNCTION pgfifo.schema_version()"
		}
		fsys[fmt.Sprintf("%04d_fake.up.sql", i+1)] = &fstest.MapFile{Data: []byte(sql + record(i+1))}
		fsys[fmt.Sprintf("%04d_fake.down.sql", i+1)] = &fstest.MapFile{Data: []byte(down)}
	}
	m, err := newMigrator(fsys, cfg)
	require.NoError(t, err)
	return m
}

func TestSteps(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	m := fake(t, nil, "SELECT", "SELECT", "SELECT")
	for _, target := range []int{2, 3, 3, 1, 2, 0, 3, 0} {
		require.NoError(t, m.reach(ctx, pool, target))
		requireVersion(t, pool, nil, target)
	}
	require.Nil(t, objects(t, pool, "pgfifo"))
}

// Twenty processes start at once: each succeeds, and each step is taken once.
func TestConcurrentUp(t *testing.T) {
	db := newDatabase(t)
	pools := make([]*pgxpool.Pool, 20)
	for i := range pools {
		pools[i] = db.pool(t, "default_transaction_isolation", "serializable")
		require.NoError(t, pools[i].Ping(t.Context())) // connected: nothing but the start is left to do
	}
	m := fake(t, &Config{Schema: "Some-Schema", LockTimeout: time.Millisecond},
		"CREATE TABLE pgfifo.steps (version integer)",
		"INSERT INTO pgfifo.steps SELECT 2", "INSERT INTO pgfifo.steps SELECT 3")

	together(t, pools, func(ctx context.Context, pool *pgxpool.Pool) error { return m.reach(ctx, pool, 3) })
	require.Equal(t, []int{2, 3}, query[[]int](t, pools[0], `SELECT array_agg(version) FROM "Some-Schema".steps`))
	exec(t, pools[0], `DROP TABLE "Some-Schema".steps`)
	together(t, pools, func(ctx context.Context, pool *pgxpool.Pool) error { return m.reach(ctx, pool, 0) })
	require.Nil(t, objects(t, pools[0], "Some-Schema"))

	together(t, pools, func(ctx context.Context, pool *pgxpool.Pool) error { return Up(ctx, pool, nil) })
	requireVersion(t, pools[0], nil, Latest)
}

// together calls f with each pool at the same moment and requires that all succeed.
func together(t *testing.T, pools []*pgxpool.Pool, f func(ctx context.Context, pool *pgxpool.Pool) error) {
	t.Helper()
	var wg sync.WaitGroup
	start, errs := make(chan struct{}), make([]error, len(pools))
	for i, pool := range pools {
		wg.Go(func() {
			<-start
			errs[i] = f(t.Context(), pool)
		})
	}
	close(start)
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

// A step that fails leaves the version before it, and nothing of its own.
func TestFailingStep(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	first := "CREATE TABLE pgfifo.a ()"
	broken := fake(t, nil, first, "CREATE TABLE pgfifo.b (); SELECT 1/0")
	requireCode(t, broken.reach(ctx, pool, 2), "22012", "migrations: 0002_fake.up.sql: ")
	requireVersion(t, pool, nil, 1)
	require.Equal(t, []string{"function schema_version", "relation a", "schema pgfifo"}, objects(t, pool, "pgfifo"))

	repaired := fake(t, nil, first, "CREATE TABLE pgfifo.b ()")
	require.NoError(t, repaired.reach(ctx, pool, 2))
	requireVersion(t, pool, nil, 2)

	broken = fake(t, &Config{Schema: "first"}, "SELECT 1/0")
	requireCode(t, broken.reach(ctx, pool, 1), "22012", "migrations: 0001_fake.up.sql: ")
	require.Nil(t, objects(t, pool, "first"), "the schema neither")
}

// A file that does not record its version must not pass for done.
func TestStepWithoutRecord(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	m := fake(t, nil, "SELECT", "SELECT")
	m.steps[1].up.sql = "CREATE TABLE pgfifo.b ()"
	require.EqualError(t, m.reach(ctx, pool, 2), "migrations: 0002_fake.up.sql: it records version 1 instead of 2")
	require.Equal(t, []string{"function schema_version", "schema pgfifo"}, objects(t, pool, "pgfifo"))
	m.steps[0].down.sql = "SELECT"
	require.EqualError(t, m.reach(ctx, pool, 0), "migrations: 0001_fake.down.sql: it records version 1 instead of 0")
	requireVersion(t, pool, nil, 1)
}

// Somebody uses the table and does not stop: the step gives up, so that the queue behind it moves again.
func TestLockTimeout(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	pool := db.pool(t, "lock_timeout", "0")
	require.NoError(t, Up(ctx, pool, nil))
	worker := begin(t, db.pool(t), "SELECT FROM pgfifo.jobs")

	m := fake(t, &Config{LockTimeout: time.Microsecond, LockTries: 3}, "SELECT",
		"ALTER TABLE pgfifo.jobs ADD x integer")
	bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := m.reach(bounded, pool, 2)
	require.ErrorIs(t, err, ErrLocked)
	requireCode(t, err, "55P03", "migrations: tables in use: after 3 tries: migrations: 0002_fake.up.sql: ")
	requireVersion(t, pool, nil, 1)
	require.NoError(t, worker.Commit(ctx))
	require.NoError(t, m.reach(ctx, pool, 2))
	require.Equal(t, "0", query[string](t, pool, "SHOW lock_timeout"), "the connection is as it was")
}

// While a job runs, a step that changes its table is tried again and again, and an enqueue passes in between; when
// the job ends, the step is taken.
func TestEnqueuesPassAStepThatWaits(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	pool := db.pool(t)
	require.NoError(t, Up(ctx, pool, nil))
	job, producer := db.pool(t), db.pool(t)
	const enqueue = "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '')"
	exec(t, producer, enqueue)
	tx := begin(t, job, "SELECT FROM pgfifo.jobs FOR NO KEY UPDATE")

	cfg := &Config{LockTimeout: 50 * time.Millisecond, LockTries: 1000}
	m := fake(t, cfg, "SELECT", "ALTER TABLE pgfifo.jobs ADD x integer")
	done := beside(func() error { return m.reach(ctx, pool, 2) })
	for range 3 { // each time behind the step, which gives way
		awaitTableLock(t, tx, done)
		bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
		_, err := producer.Exec(bounded, enqueue)
		cancel()
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-done)
	requireVersion(t, pool, nil, 2)
}

// awaitTableLock returns when a session of the database waits for the lock of a table. What is done must not end.
func awaitTableLock(t *testing.T, db querier, done <-chan error) {
	t.Helper()
	awaitLock(t, db, done, `
		SELECT EXISTS (SELECT FROM pg_locks
		               WHERE locktype = 'relation' AND NOT granted AND mode = 'AccessExclusiveLock'
		                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
}

// The tries end with the context.
func TestTriesAreCancelled(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	pool := db.pool(t)
	require.NoError(t, Up(ctx, pool, nil))
	worker := begin(t, db.pool(t), "SELECT FROM pgfifo.jobs")
	m := fake(t, nil, "SELECT", "ALTER TABLE pgfifo.jobs ADD x integer")
	m.lockTimeout = time.Millisecond
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	m.lockTries = 1 << 30
	done := beside(func() error { return m.reach(cancelled, pool, 2) })
	awaitTableLock(t, worker, done)
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
}

func TestLockSettings(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", time.Minute: "60000",
		1000 * time.Hour: "2147483647", -1: "0",
	} {
		require.Equal(t, want, lockSetting(d), d)
	}
	for _, c := range []*Config{nil, {}} {
		m, err := newMigrator(files, c)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, m.lockTimeout)
		require.Equal(t, 10, m.lockTries)
	}
	require.ErrorIs(t, Up(t.Context(), nil, &Config{LockTries: -1}), ErrConfig)
}

// The wait for another migrator is as long as it takes, and sees what that one did: here it ran the files by hand.
func TestWaitForOtherMigrator(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	waiting := db.pool(t,
		"default_transaction_isolation", "repeatable read", "lock_timeout", "1s", "statement_timeout", "1s")
	other := db.pool(t)
	tx := begin(t, other, lockSQL, "pgfifo")

	done := beside(func() error { return Up(ctx, waiting, &Config{LockTimeout: time.Millisecond}) })
	awaitWaiter(t, tx, 1500*time.Millisecond, done)
	_, err := tx.Exec(ctx, "CREATE SCHEMA pgfifo")
	require.NoError(t, err)
	_, err = tx.Exec(ctx, read(t, "", "0001_init.up.sql"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(ctx))
	require.NoError(t, <-done)
	requireVersion(t, other, nil, 1)
}

// It is the context that bounds the wait. Another schema's migrators do not wait.
func TestWaitIsCancelled(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	tx := begin(t, db.pool(t), lockSQL, "pgfifo")

	pool := db.pool(t)
	bounded, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	require.NoError(t, Up(bounded, pool, &Config{Schema: "another"}))
	cancelled, cancel := context.WithCancel(ctx)
	done := beside(func() error { return Up(cancelled, pool, nil) })
	awaitWaiter(t, tx, 0, done)
	cancel()
	err := <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `migrations: wait for other migrators of schema "pgfifo": `)
}

// awaitWaiter returns when a session of the database has waited for an advisory lock for d. What is done must not end.
func awaitWaiter(t *testing.T, db querier, d time.Duration, done <-chan error) {
	t.Helper()
	awaitLock(t, db, done, `
		SELECT EXISTS (
			SELECT FROM pg_locks l, pg_stat_get_activity(l.pid) a
			WHERE l.locktype = 'advisory' AND NOT l.granted AND a.query_start < clock_timestamp() - $1::interval
			  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`, d)
}
