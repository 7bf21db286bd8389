package fifo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// frozenSweep runs a worker whose sweep has locked the idle group g and freezes then, as its server sees it.
func (b *bed) frozenSweep(h fifo.Handler, adjust ...func(*fifo.Worker)) (thaw func()) {
	b.t.Helper()
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id, created_at) VALUES ('q', 'g', '2000-01-01')")
	frozen, thawed := make(chan struct{}), make(chan struct{})
	f := &meanwhile{text: "DELETE FROM pgfifo.queue_groups", do: func() {
		close(frozen)
		<-thawed
	}}
	b.run(b.worker(h, append(adjust, func(w *fifo.Worker) {
		w.Client = b.open(b.pooled(func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = f }))
		w.SweepInterval = 10 * time.Millisecond
	})...))
	receive(b.t, frozen, "the sweep")
	return func() { close(thawed) }
}

// A sweeper that freezes while it has locked idle groups keeps them for no longer than a frozen lane would.
func TestFrozenSweeperFreesGroups(t *testing.T) {
	b := newBed(t)
	thaw := b.frozenSweep(nop, func(w *fifo.Worker) {
		w.Heartbeat, w.Silence, w.ServerSilence = 100*time.Millisecond, time.Second, 3500*time.Millisecond
	})
	t.Cleanup(thaw)
	b.send("g", nil)
	const free = "SELECT count(*) FROM (SELECT FROM pgfifo.queue_groups WHERE group_id = 'g' FOR UPDATE SKIP LOCKED) g"
	require.Zero(t, query[int](b, free))
	b.drained()
}

// The second look of a sweep sees what was enqueued since its first, whatever isolation level the database has by
// default.
func TestSweepSeesTheNewest(t *testing.T) {
	b := newBed(t)
	b.isolate("repeatable read")
	h := newBlocking()
	thaw := b.frozenSweep(h.handle)
	b.send("g", nil)
	thaw()
	receive(t, h.started, "the handler")
	require.True(t, query[bool](b, "SELECT created_at < '2001-01-01' FROM pgfifo.queue_groups"), "the row of before")
	close(h.release)
	b.drained()
}

// set changes a setting of the database, for connections made from now on.
func (b *bed) set(setting string) {
	b.t.Helper()
	b.exec("ALTER DATABASE " + query[string](b, "SELECT current_database()") + " SET " + setting)
	b.pool.Reset()
}

// isolate sets the isolation level that transactions have by default.
func (b *bed) isolate(level string) {
	b.t.Helper()
	b.set("default_transaction_isolation = '" + level + "'")
}

func TestChangesBesideOthers(t *testing.T) {
	b := newBed(t)
	b.isolate("repeatable read")
	other := pgtest.Conn(t, b.url)
	for name, x := range map[string]struct {
		change string // of somebody else
		verb   func(ctx context.Context, g fifo.Scope) (int, error)
	}{
		"Purge": {
			"LOCK pgfifo.jobs IN EXCLUSIVE MODE; UPDATE pgfifo.jobs SET attempts = 1",
			func(ctx context.Context, g fifo.Scope) (int, error) { return g.Purge(ctx) },
		},
		"Pause": {
			"UPDATE pgfifo.pauses SET reason = 'other'",
			func(ctx context.Context, g fifo.Scope) (int, error) { return 1, pausing(g.Pause(ctx, "mine")) },
		},
		"Resume": {
			"UPDATE pgfifo.pauses SET reason = 'other'",
			func(ctx context.Context, g fifo.Scope) (int, error) {
				paused, err := g.Resume(ctx)
				if !paused {
					err = errors.Join(err, errors.New("it was not paused"))
				}
				return 1, err
			},
		},
		"Redrive": {
			"UPDATE pgfifo.dead_letters SET attempts = 1",
			func(ctx context.Context, g fifo.Scope) (int, error) { return counted(g.Redrive(ctx, again(1000))) },
		},
		"DeleteDeadLetters": {
			"UPDATE pgfifo.dead_letters SET attempts = 1",
			func(ctx context.Context, g fifo.Scope) (int, error) {
				return g.DeleteDeadLetters(ctx, fifo.Letters{All: true})
			},
		},
		"Fence": {
			"DELETE FROM pgfifo.pauses; COMMIT; BEGIN; UPDATE pgfifo.fences SET token = DEFAULT",
			func(ctx context.Context, _ fifo.Scope) (int, error) {
				w := b.worker(func(ctx context.Context, job *fifo.Job) error {
					_, err := job.Fence(ctx)
					return err
				})
				_, err := w.RunOne(ctx)
				return int(w.Stats().Succeeded), errors.Join(append(b.ledger.errs(), err)...)
			},
		},
	} {
		b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload) VALUES ('q', 'g', '');
			INSERT INTO pgfifo.pauses (queue, group_id) VALUES ('q', 'g');
			INSERT INTO pgfifo.fences (queue, group_id) VALUES ('q', 'g');
			INSERT INTO pgfifo.dead_letters (queue, group_id, id, payload, attempts, enqueued_at)
				VALUES ('q', 'g', 1000, '', 0, now())`)
		_, err := other.Exec(t.Context(), "BEGIN; "+x.change)
		require.NoError(t, err)
		n := 0
		done := beside(func() (err error) {
			n, err = x.verb(context.WithoutCancel(t.Context()), b.q.Group("g"))
			return err
		})
		await(t, "the wait", func() bool { return b.waiting("") })
		_, err = other.Exec(t.Context(), "COMMIT")
		require.NoError(t, err)
		require.NoError(t, receive(t, done, name))
		require.Equal(t, 1, n, name)
		b.exec("TRUNCATE pgfifo.jobs, pgfifo.pauses, pgfifo.fences, pgfifo.dead_letters")
	}
}

// Ids that have expired are swept in the background, a thousand in a transaction, and those that a producer has just
// taken are left.
func TestDedupIsSwept(t *testing.T) {
	b := newBed(t)
	b.exec(`INSERT INTO pgfifo.dedup_ids (key, job, expires) SELECT sha256(n::text::bytea), n,
		now() - interval '1 second' + CASE WHEN n > 2500 THEN interval '1 hour' ELSE '0' END
		FROM generate_series(1, 2600) n`)
	b.exec("INSERT INTO pgfifo.dedup_ids VALUES (sha256(convert_to(E'q\n\na', 'UTF8')), 7, '2000-01-01')")
	tx := b.begin()
	b.receiptsIn(tx, deduped("g", "a"))
	b.run(b.worker(nop, func(w *fifo.Worker) { w.SweepInterval = 10 * time.Millisecond }))
	await(t, "the sweep", func() bool { return b.count("dedup_ids") == 101 })
	require.NoError(t, tx.Commit(t.Context()))
	require.True(t, b.receipts(deduped("g", "a"))[0].Duplicate)
	await(t, "a job", func() bool { return len(b.ledger.order()) == 1 })
	require.Equal(t, 101, b.count("dedup_ids"))
}
