package fifo_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// whatWaits has how a job comes to wait.
var whatWaits = map[string]func(b *bed){
	"paused":  func(b *bed) { require.NoError(b.t, pausing(b.q.Group("g").Pause(b.t.Context(), ""))) },
	"delayed": func(b *bed) { b.exec("UPDATE pgfifo.jobs SET run_at = now() + interval '1 hour'") },
}

const lockSQL = "SELECT FROM pgfifo.jobs FOR NO KEY UPDATE"

// tracedLocks returns a client's pool. before is called before each statement that locks a job for a verb.
func (b *bed) tracedLocks(before func()) *pgxpool.Pool {
	b.t.Helper()
	return b.pooled(func(cfg *pgxpool.Config) {
		cfg.ConnConfig.Tracer = &meanwhile{text: "-- Locks a job that is to be changed", few: 1000, do: before}
	})
}

// A worker that looks at a job which does not run has it locked for a moment. A verb tries again, and changes the job.
func TestVerbsBesideALook(t *testing.T) {
	pgtest.OverAll(t, whatWaits, func(t *testing.T, waits func(b *bed)) {
		b := newBed(t)
		var look pgx.Tx
		tries := 0
		q := b.open(b.tracedLocks(func() {
			if tries++; tries == 2 {
				require.NoError(t, look.Rollback(t.Context()))
			}
		})).Queue("q")
		for name, verb := range oneJob {
			id := b.send("g", "a")[0]
			waits(b)
			look, tries = b.beginWith(lockSQL), 0
			require.NoError(t, verb(promptly(t), q, id), name)
			require.Equal(t, 2, tries, name)
			b.exec("DELETE FROM pgfifo.jobs")
		}
		b.ledger.sent = nil // they are deleted
	})
}

// Who does not let go of it soon is told of, and in the caller's transaction at once.
func TestVerbsBesideALongLock(t *testing.T) {
	pgtest.OverAll(t, whatWaits, func(t *testing.T, waits func(b *bed)) {
		b := newBed(t)
		id := b.send("g", "a")[0]
		waits(b)
		b.beginWith(lockSQL)
		tries := 0
		pool := b.tracedLocks(func() { tries++ })
		q := b.open(pool).Queue("q")
		for name, verb := range oneJob {
			ctx := promptly(t)
			tries = 0
			require.ErrorIs(t, verb(ctx, q, id), fifo.ErrJobHeld, name)
			require.NoError(t, ctx.Err(), name)
			require.Greater(t, tries, 1, name)

			tries = 0
			require.NoError(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				require.ErrorIs(t, verb(ctx, q.InPgx(tx), id), fifo.ErrJobHeld, name)
				return nil
			}))
			require.Equal(t, 1, tries, name)
		}
	})
}

// A job that runs on although its group is paused is told to run, and soon.
func TestVerbsOnAJobThatRunsOn(t *testing.T) { overLeases(t, testVerbsOnAJobThatRunsOn) }

func testVerbsOnAJobThatRunsOn(t *testing.T, by lease) {
	b := by.on(newBed(t))
	id := b.send("g", "a")[0]
	h := newBlocking()
	b.run(b.worker(h.handle))
	receive(t, h.started, "the job")
	whatWaits["paused"](b)
	for name, verb := range oneJob {
		ctx := promptly(t)
		err := verb(ctx, b.q, id)
		require.ErrorIs(t, err, fifo.ErrJobHeld, name)
		require.ErrorContains(t, err, " runs since ", name)
		require.NoError(t, ctx.Err(), name)
	}
	close(h.release)
	b.drained()
}
