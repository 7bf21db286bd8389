package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

func TestNoJob(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	listed := b.jobs()[0]
	b.work(b.worker(nop))
	for _, job := range []*fifo.Job{{}, &listed, b.ledger.starts[0], b.ledger.settled[0].job} {
		_, err := job.Tx(t.Context())
		require.ErrorIs(t, err, fifo.ErrNoJob)
		_, err = job.SQLTx(t.Context())
		require.ErrorIs(t, err, fifo.ErrNoJob)
		_, err = job.PgxTx(t.Context())
		require.ErrorIs(t, err, fifo.ErrNoJob)
		_, err = job.Fence(t.Context())
		require.ErrorIs(t, err, fifo.ErrNoJob)
	}
}

// A transaction that a handler kept is of no use once it has returned: neither while the same connection holds the next
// job, whose transaction it would write to, nor while it is idle.
func TestTxAfterTheJob(t *testing.T) { overLeases(t, testTxAfterTheJob) }

func testTxAfterTheJob(t *testing.T, by lease) {
	const insert = "INSERT INTO effects VALUES (1)"
	type use = func(ctx context.Context) error
	keep := map[string]func(ctx context.Context, job *fifo.Job) (use, error){
		"bun": func(ctx context.Context, job *fifo.Job) (use, error) {
			kept, err := job.Tx(ctx)
			return func(ctx context.Context) error {
				_, err := kept.ExecContext(ctx, insert)
				return errors.Join(err, kept.Commit())
			}, err
		},
		"pgx": func(ctx context.Context, job *fifo.Job) (use, error) {
			kept, err := job.PgxTx(ctx)
			return func(ctx context.Context) error {
				_, err := kept.Exec(ctx, insert)
				return err
			}, err
		},
		"sql": func(ctx context.Context, job *fifo.Job) (use, error) {
			kept, err := job.SQLTx(ctx)
			return func(ctx context.Context) error {
				_, err := kept.ExecContext(ctx, insert)
				return errors.Join(err, kept.Commit())
			}, err
		},
	}
	b := by.on(newEffects(t))
	var kept use
	var during error
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) (err error) {
		if string(job.Payload) == "keeps" {
			kept, err = keep[job.GroupID](ctx, job)
			return err
		}
		during = kept(ctx)
		return nil
	}, oneLane))
	for kind := range keep {
		b.send(kind, "keeps", "uses")
		require.Equal(t, []fifo.Outcome{fifo.Succeeded, fifo.Succeeded}, b.ends(kind, 2), kind)
		require.Error(t, during, "%s, while the next job ran", kind)
		require.Error(t, kept(t.Context()), "%s, while the lane was idle", kind)
	}
	require.Empty(t, b.effects())
}

// What a handler enqueues in its job's transaction is there if the job succeeded.
func TestEnqueueInJob(t *testing.T) { overLeases(t, testEnqueueInJob) }

func testEnqueueInJob(t *testing.T, by lease) {
	b := by.on(newBed(t))
	b.send("bun", "parent")
	b.send("pgx", "parent")
	b.send("sql", "parent")
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) != "parent" {
			return nil
		}
		child := fifo.Message{Queue: "q", GroupID: job.GroupID, Payload: fmt.Sprint("child of attempt ", job.Attempt())}
		if err := b.enqueueIn(ctx, job, child); err != nil {
			return err
		}
		return failing(1, errOnPurpose)(ctx, job)
	}, rarePolls))
	b.drained()
	await(t, "the children", func() bool { return len(b.ledger.order()) == 9 })
	var children []string
	for _, p := range b.ledger.payloads() {
		if strings.HasPrefix(p, "child") {
			children = append(children, p)
		}
	}
	require.Equal(t, []string{"child of attempt 2", "child of attempt 2", "child of attempt 2"}, children)
}

// enqueueIn enqueues in the job's transaction of the kind that its group is called.
func (b *bed) enqueueIn(ctx context.Context, job *fifo.Job, m fifo.Message) error {
	switch job.GroupID {
	case "bun":
		tx, err := job.Tx(ctx)
		if err == nil {
			_, err = b.client.EnqueueTx(ctx, tx, m)
		}
		return err
	case "sql":
		tx, err := job.SQLTx(ctx)
		if err == nil {
			_, err = b.client.EnqueueTx(ctx, tx, m)
		}
		return err
	default:
		tx, err := job.PgxTx(ctx)
		if err == nil {
			_, err = b.client.EnqueuePgxTx(ctx, tx, m)
		}
		return err
	}
}

// The transaction is READ COMMITTED and writable, whatever the database's default is, and the session's planner
// settings are the database's, not those that the library makes for its own statements.
func TestTxSettings(t *testing.T) {
	b := newBed(t)
	b.exec(`DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = on', current_database());
	END $$`)
	settings := []string{
		"transaction_isolation", "transaction_read_only", "enable_seqscan", "enable_bitmapscan", "enable_sort",
		"enable_hashjoin", "enable_mergejoin", "plan_cache_mode",
	}
	b.send("g", nil, nil)
	var got [][]string
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		var list []string
		err = tx.QueryRow(ctx, "SELECT array_agg(current_setting(s)) FROM unnest($1::text[]) s", settings).Scan(&list)
		got = append(got, list)
		return err
	}, oneLane))
	want := []string{"read committed", "off", "on", "on", "on", "on", "on", "auto"}
	require.Equal(t, [][]string{want, want}, got)
}

// A handler that does not ask for the transaction pays for no savepoint: the last thing that its session was told is
// the claim.
func TestSavepointIsLazy(t *testing.T) {
	b := newBed(t)
	b.send("g", "asks not", "asks", "asks not")
	last := make(map[string]string)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "asks" {
			if _, err := job.Tx(ctx); err != nil {
				return err
			}
		}
		held, err := b.q.Groups(ctx, fifo.Page{}, fifo.Held)
		if err != nil || len(held) != 1 {
			return fmt.Errorf("%d held: %w", len(held), errors.Join(err, errOnPurpose))
		}
		var sql string
		err = b.pool.QueryRow(ctx, "SELECT query FROM pg_stat_activity WHERE pid = $1", held[0].PID).Scan(&sql)
		last[string(job.Payload)] = sql
		return err
	}, oneLane))
	require.Contains(t, last["asks"], "SAVEPOINT")
	require.NotContains(t, last["asks not"], "SAVEPOINT")
	require.Contains(t, last["asks not"], "Claims the head of the group")
}

// A goroutine that a handler has left behind may ask at any moment.
func TestTxAskedForByALeftGoroutine(t *testing.T) {
	b := newBed(t)
	b.send("g", nil)
	answer := make(chan error, 1)
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		returned := make(chan struct{})
		defer close(returned)
		go func() {
			<-returned
			for {
				if _, err := job.PgxTx(context.Background()); err != nil {
					answer <- err
					return
				}
			}
		}()
		return nil
	}))
	require.ErrorIs(t, receive(t, answer, "the answer"), fifo.ErrNoJob)
}
