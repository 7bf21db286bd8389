package migrations

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	addJob  = "INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '')"
	addDead = `INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
		VALUES ('q', 'g', 1, '', 1, now())`
)

// What there is to be done, and what was given up, goes only if that is asked for.
func TestDownKeepsJobs(t *testing.T) {
	t.Parallel()
	for table, add := range map[string]string{"jobs": addJob, "dead_letters": addDead} {
		t.Run(table, func(t *testing.T) {
			ctx, db := t.Context(), newDatabase(t)
			pool := db.pool(t)
			require.NoError(t, Up(ctx, pool, nil))
			exec(t, pool, add)
			// A worker uses the tables: nobody has to wait for it to be told.
			worker := begin(t, db.pool(t), "SELECT FROM pgfifo."+table+" FOR NO KEY UPDATE")
			unlimited := &Config{LockTimeout: -1}
			require.ErrorIs(t, Down(ctx, pool, unlimited), ErrNotEmpty)
			require.ErrorIs(t, To(ctx, pool, 0, unlimited), ErrNotEmpty)
			require.NoError(t, worker.Commit(ctx))

			require.Equal(t, append(tables, "schema pgfifo"), objects(t, pool, "pgfifo"))
			require.Equal(t, 1, query[int](t, pool, "SELECT count(*) FROM pgfifo."+table))
			requireVersion(t, pool, nil, Latest)
			require.NoError(t, Down(ctx, pool, &Config{DropJobs: true}))
			require.Nil(t, objects(t, pool, "pgfifo"))
		})
	}
}

// Down has found no jobs, and one is committed while it waits for the tables: it sees that, and takes back the steps
// that it has taken.
func TestDownSeesLateJobs(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]string{"job": addJob, "dead letter": addDead} {
		t.Run(name, func(t *testing.T) {
			ctx, db := t.Context(), newDatabase(t)
			pool, next := db.pool(t), newer(t, Latest)
			next.lockTimeout = -1
			require.NoError(t, next.reach(ctx, pool, Latest+1))
			tx := begin(t, db.pool(t), add)

			done := beside(func() error {
				if err := next.refuse(ctx, pool); err != nil {
					return err
				}
				return next.reach(ctx, pool, 0)
			})
			awaitTableLock(t, tx, done)
			require.NoError(t, tx.Commit(ctx))
			err := <-done
			require.ErrorIs(t, err, ErrNotEmpty)
			require.ErrorContains(t, err, `"empty it before it is dropped"`)
			requireVersion(t, pool, nil, Latest+1)
			require.Equal(t, 1, query[int](t, pool,
				"SELECT (SELECT count(*) FROM pgfifo.jobs) + (SELECT count(*) FROM pgfifo.dead_letters)"))
		})
	}
}

// Jobs of a transaction that is prepared, and not yet committed, are not lost either.
func TestDownWaitsForPreparedJobs(t *testing.T) {
	ctx, pool := t.Context(), newPool(t)
	if query[string](t, pool, "SHOW max_prepared_transactions") == "0" {
		t.Skip("a server of somebody's, which prepares no transactions")
	}
	require.NoError(t, Up(ctx, pool, nil))
	gid := unique()
	exec(t, pool, "BEGIN; "+addJob+"; PREPARE TRANSACTION '"+gid+"'")
	t.Cleanup(func() { _, _ = pool.Exec(context.WithoutCancel(ctx), "ROLLBACK PREPARED '"+gid+"'") })
	for _, drop := range []bool{false, true} {
		err := Down(ctx, pool, &Config{LockTimeout: time.Millisecond, LockTries: 2, DropJobs: drop})
		require.ErrorIs(t, err, ErrLocked)
	}
	exec(t, pool, "COMMIT PREPARED '"+gid+"'")
	require.ErrorIs(t, Down(ctx, pool, nil), ErrNotEmpty)
}

// Somebody else drops the tables while Down looks for jobs in them: nothing is left for it to do.
func TestDownBesideAnother(t *testing.T) {
	ctx, db := t.Context(), newDatabase(t)
	pool := db.pool(t)
	require.NoError(t, Up(ctx, pool, nil))
	other := begin(t, db.pool(t), "DROP SCHEMA pgfifo CASCADE")
	done := beside(func() error { return Down(ctx, pool, nil) })
	awaitLock(t, other, done, `
		SELECT EXISTS (SELECT FROM pg_locks
		               WHERE locktype = 'relation' AND NOT granted AND mode = 'AccessShareLock'
		                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	require.NoError(t, other.Commit(ctx))
	require.NoError(t, <-done)
}
