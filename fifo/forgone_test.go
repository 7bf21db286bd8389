package fifo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
)

// A handler that returns nil when it has rolled back what it wrote, as by a deferred Rollback, is told of. It may have
// meant to: not if a statement had failed, or if it goes on.
func TestForgoneWrites(t *testing.T) {
	const insert = "INSERT INTO effects VALUES (1)"
	exec := func(ctx context.Context, tx pgx.Tx, sql string) error { return second(tx.Exec(ctx, sql)) }
	rows := map[string]struct {
		do   fifo.Handler
		told bool
	}{
		"pgx": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			return exec(ctx, tx, insert)
		}), true},
		"bun": {withTx(func(ctx context.Context, _ *fifo.Job, tx bun.Tx) error {
			defer func() { _ = tx.Rollback() }()
			return second(tx.NewRaw(insert).Exec(ctx))
		}), true},
		"pgx, with rows": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			return tx.QueryRow(ctx, insert+" RETURNING 1").Scan(new(int))
		}), true},
		"pgx, in a batch": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			batch := new(pgx.Batch)
			batch.Queue(insert)
			return tx.SendBatch(ctx, batch).Close()
		}), true},
		"pgx, copied": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			rows := pgx.CopyFromRows([][]any{{1}})
			return second(tx.CopyFrom(ctx, pgx.Identifier{"effects"}, []string{"attempt"}, rows))
		}), true},
		"committed": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			return errors.Join(exec(ctx, tx, insert), tx.Commit(ctx))
		}), false},
		"bun, with rows": {withTx(func(ctx context.Context, _ *fifo.Job, tx bun.Tx) error {
			defer func() { _ = tx.Rollback() }()
			return tx.NewRaw(insert+" RETURNING 1").Scan(ctx, new(int))
		}), true},
		"nothing written": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			return exec(ctx, tx, "INSERT INTO effects SELECT 1 WHERE false")
		}), false},
		"only read": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			return exec(ctx, tx, "SELECT 1")
		}), false},
		"copied out": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			return exec(ctx, tx, "COPY (SELECT 1) TO STDOUT")
		}), false},
		"a statement had failed": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			if exec(ctx, tx, insert) != nil || exec(ctx, tx, "SELECT 1/0") == nil {
				return errOnPurpose
			}
			return nil
		}), false},
		"a statement inside had failed": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			err := exec(ctx, tx, insert)
			inner, began := tx.Begin(ctx)
			if err := errors.Join(err, began); err != nil {
				return err
			}
			_ = exec(ctx, inner, "SELECT 1/0")
			return inner.Rollback(ctx)
		}), false},
		"anew, and committed": {withPgx(func(ctx context.Context, job *fifo.Job, tx pgx.Tx) error {
			if err := errors.Join(exec(ctx, tx, insert), tx.Rollback(ctx)); err != nil {
				return err
			}
			tx, err := job.PgxTx(ctx)
			if err != nil {
				return err
			}
			return errors.Join(exec(ctx, tx, "SELECT 1"), tx.Commit(ctx))
		}), false},
		"committed, and then only read": {withPgx(func(ctx context.Context, job *fifo.Job, tx pgx.Tx) error {
			if err := errors.Join(exec(ctx, tx, insert), tx.Commit(ctx)); err != nil {
				return err
			}
			tx, err := job.PgxTx(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(ctx) }()
			return exec(ctx, tx, "SELECT 1")
		}), false},
		"a part of it": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			inner, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			return errors.Join(exec(ctx, inner, insert), inner.Rollback(ctx))
		}), false},
		"anew": {withPgx(func(ctx context.Context, job *fifo.Job, tx pgx.Tx) error {
			if err := errors.Join(exec(ctx, tx, insert), tx.Rollback(ctx)); err != nil {
				return err
			}
			return withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
				return exec(ctx, tx, insert)
			})(ctx, job)
		}), false},
	}
	b := newEffects(t)
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error { return rows[job.GroupID].do(ctx, job) }, oneLane))
	for name, x := range rows {
		b.exec("DELETE FROM effects")
		b.send(name, nil)
		require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ends(name, 1), name)
		told := slices.ContainsFunc(b.log.lines("rolled back what it wrote"), func(line string) bool {
			return strings.Contains(line, fmt.Sprintf("group=%s ", name)) ||
				strings.Contains(line, fmt.Sprintf("group=%q ", name))
		})
		require.Equal(t, x.told, told, name)
	}
}

// Messages are rolled back with what else the handler wrote, and the worker tells, whatever statement enqueued them.
func TestForgoneMessages(t *testing.T) {
	b := newEffects(t)
	one, two := fifo.Message{Queue: "next", GroupID: "g"}, fifo.Message{Queue: "next", GroupID: "h"}
	urgent, once := one, one
	urgent.Priority, once.DedupID = 1, "id"
	rows := map[string][]fifo.Message{"one": {one}, "two": {one, two}, "urgent": {urgent}, "once": {once}}
	byPgx := withPgx(func(ctx context.Context, job *fifo.Job, tx pgx.Tx) error {
		defer func() { _ = tx.Rollback(ctx) }()
		return second(b.client.EnqueuePgxTx(ctx, tx, rows[job.GroupID]...))
	})
	byBun := withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) error {
		defer func() { _ = tx.Rollback() }()
		return second(b.client.EnqueueTx(ctx, tx, rows[job.GroupID]...))
	})
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if len(rows[job.GroupID]) > 1 {
			return byBun(ctx, job)
		}
		return byPgx(ctx, job)
	}))
	for name := range rows {
		b.send(name, nil)
		require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ends(name, 1), name)
		require.True(t, slices.ContainsFunc(b.log.lines("rolled back what it wrote"), func(line string) bool {
			return strings.Contains(line, "group="+name+" ")
		}), name)
	}
	require.Zero(t, b.count("jobs"))
}
