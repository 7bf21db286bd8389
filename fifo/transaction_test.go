package fifo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/fifo"
)

// newEffects is a bed with a table for what handlers write.
func newEffects(t *testing.T, adjust ...func(*fifo.Config)) *bed {
	t.Helper()
	b := newBed(t, adjust...)
	b.exec("CREATE TABLE effects (attempt int, UNIQUE (attempt) DEFERRABLE INITIALLY DEFERRED)")
	return b
}

func (b *bed) effects() []int {
	b.t.Helper()
	return query[[]int](b, "SELECT coalesce(array_agg(attempt ORDER BY attempt), '{}') FROM effects")
}

// A job whose COMMIT the server refuses waits as Retry says.
func TestRefusedCommitIsRetriedLater(t *testing.T) { overLeases(t, testRefusedCommitIsRetriedLater) }

func testRefusedCommitIsRetriedLater(t *testing.T, by lease) {
	b := by.on(newEffects(t))
	b.send("g", nil)
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		return exec(ctx, job, "INSERT INTO effects VALUES (1), (1)")
	}, func(w *fifo.Worker) { w.Retry = fifo.Backoff(time.Hour, time.Hour) }))
	await(t, "the first attempt", func() bool { return b.jobs()[0].Attempts == 1 })
	require.Greater(t, time.Until(b.jobs()[0].RunAt), time.Minute)
}

// exec runs a statement in the job's transaction, with pgx.
func exec(ctx context.Context, job *fifo.Job, sql string, args ...any) error {
	tx, err := job.PgxTx(ctx)
	if err != nil {
		return err
	}
	return second(tx.Exec(ctx, sql, args...))
}

// bunExec is exec with bun, whose placeholders are question marks.
func bunExec(ctx context.Context, job *fifo.Job, sql string, args ...any) error {
	tx, err := job.Tx(ctx)
	if err != nil {
		return err
	}
	return second(tx.ExecContext(ctx, sql, args...))
}

// write leaves an effect behind, through bun or pgx by turns.
func write(ctx context.Context, job *fifo.Job, n int) error {
	if job.ID%2 == 0 {
		return exec(ctx, job, "INSERT INTO effects VALUES ($1)", n)
	}
	return bunExec(ctx, job, "INSERT INTO effects VALUES (?)", n)
}

// withTx is a handler that has asked for its transaction.
func withTx(do func(ctx context.Context, job *fifo.Job, tx bun.Tx) error) fifo.Handler {
	return func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.Tx(ctx)
		if err != nil {
			return err
		}
		return do(ctx, job, tx)
	}
}

// withPgx is the same with pgx.
func withPgx(do func(ctx context.Context, job *fifo.Job, tx pgx.Tx) error) fifo.Handler {
	return func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		return do(ctx, job, tx)
	}
}

func oneLane(w *fifo.Worker) { w.Concurrency = 1 }

// What a failed attempt wrote is gone, however it failed; what a successful one wrote is there.
func TestEffects(t *testing.T) { overLeases(t, testEffects) }

func testEffects(t *testing.T, by lease) {
	failures := map[string]fifo.Handler{
		"error": func(context.Context, *fifo.Job) error { return errOnPurpose },
		"panic": func(context.Context, *fifo.Job) error { panic("on purpose") },
		"timeout": func(ctx context.Context, _ *fifo.Job) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"timeout of a statement": func(ctx context.Context, job *fifo.Job) error {
			return exec(ctx, job, "SELECT pg_sleep(3600)")
		},
		"twice the same key": func(ctx context.Context, job *fifo.Job) error { return write(ctx, job, effect(job)) },
		"error after a commit": withTx(func(_ context.Context, _ *fifo.Job, tx bun.Tx) error {
			return errors.Join(errOnPurpose, tx.Commit())
		}),
	}
	b := by.on(newEffects(t))
	for name := range failures {
		b.send(name, "fails", "next")
	}
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		err := write(ctx, job, effect(job))
		if err == nil && string(job.Payload) == "fails" && job.Attempt() == 1 {
			err = failures[job.GroupID](ctx, job)
		}
		return err
	}, oneLane, func(w *fifo.Worker) { w.JobTimeout = 2 * time.Second }))
	var want []int
	for name := range failures {
		outcomes, _, order := b.ledger.of(name)
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded, fifo.Succeeded}, outcomes, name)
		want = append(want, 10*int(order[1])+2, 10*int(order[2])+1)
	}
	require.ElementsMatch(t, want, b.effects())
}

// effect is a number of the attempt's own.
func effect(job *fifo.Job) int { return 10*int(job.ID) + job.Attempt() }

// A job whose time is over is told so, fails with that kind, and keeps its group until its handler returns.
func TestJobTimeout(t *testing.T) { overLeases(t, testJobTimeout) }

func testJobTimeout(t *testing.T, by lease) {
	b := by.on(newBed(t))
	ids := b.send("g", "slow", "next")
	causes := make(chan error, 1)
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if job.ID != ids[0] {
			return nil
		}
		err := bunExec(ctx, job, "SELECT pg_sleep(3600)")
		causes <- context.Cause(ctx)
		return err
	}, func(w *fifo.Worker) { w.JobTimeout, w.MaxAttempts = 3*time.Second, 1 }))
	require.Equal(t, fifo.ErrJobTimeout, receive(t, causes, "the cause"))
	require.Equal(t, ids, b.ledger.order())
	f := b.deadLetters()[0].Failures
	require.Len(t, f, 1)
	require.Equal(t, fifo.KindTimeout, f[0].Kind)
	require.Contains(t, f[0].Error, "fifo: job timeout after 3s: ")
	require.Contains(t, f[0].Error, "57014", "the statement was cancelled")
	require.ErrorIs(t, b.ledger.errs()[0], fifo.ErrJobTimeout)
}

// A handler that returns nil has not succeeded if what it did to the transaction cannot be committed with the job.
func TestCannotCommit(t *testing.T) { overLeases(t, testCannotCommit) }

func testCannotCommit(t *testing.T, by lease) {
	sql := func(statements ...string) fifo.Handler {
		return withTx(func(ctx context.Context, _ *fifo.Job, tx bun.Tx) error {
			for _, s := range statements {
				_, _ = tx.ExecContext(ctx, s)
			}
			return nil
		})
	}
	rows := map[string]struct {
		do   fifo.Handler
		text string
		kept bool // the handler committed by hand, and that cannot be undone
	}{
		"COMMIT":           {sql("COMMIT"), "ended the job's transaction", true},
		"ROLLBACK":         {sql("ROLLBACK"), "ended the job's transaction", false},
		"COMMIT, BEGIN":    {sql("COMMIT", "BEGIN"), "not held", true},
		"COMMIT; BEGIN":    {sql("COMMIT; BEGIN"), "not held", true},
		"COMMIT AND CHAIN": {sql("COMMIT AND CHAIN"), "not held", true},
		"ROLLBACK, BEGIN":  {sql("ROLLBACK", "BEGIN"), "not held", false},
		"swallowed error":  {sql("SELECT 1/0"), "did not roll it back: ERROR (SQLSTATE 22012)", false},
		"swallowed, go on": {sql("SELECT FROM nowhere", "SELECT 1/0"), `ERROR: relation "nowhere"`, false},
		"deferred":         {sql("INSERT INTO effects TABLE effects"), "effects_attempt_key", false},
		"pgx rows":         {leaveRows, "still open", false},
		"PREPARE":          {sql("PREPARE TRANSACTION 'x'"), "ended the job's transaction", false},
		"swallowed, commit": {withTx(func(ctx context.Context, _ *fifo.Job, tx bun.Tx) error {
			_, _ = tx.ExecContext(ctx, "SELECT 1/0")
			return tx.Commit()
		}), "commit unexpectedly resulted in rollback", false},
	}
	b := by.on(newEffects(t))
	ids := make(map[string][]int64)
	for name := range rows {
		ids[name] = b.send(name, "odd", "next")
	}
	b.work(b.worker(func(ctx context.Context, job *fifo.Job) error {
		if string(job.Payload) == "next" {
			return nil
		}
		x := rows[job.GroupID]
		if err := write(ctx, job, effect(job)); err != nil {
			return err
		}
		if job.Attempt() == 1 {
			return x.do(ctx, job)
		}
		failures := query[[]fifo.Failure](b, "SELECT failures FROM pgfifo.jobs WHERE id = $1", job.ID)
		require.Equal(t, 1, job.Attempts)
		require.Equal(t, fifo.KindError, only(t, failures).Kind)
		require.Contains(t, failures[0].Error, x.text)
		return nil
	}, oneLane))
	var want []int
	for name, x := range rows {
		outcomes, errs, order := b.ledger.of(name)
		odd := ids[name][0]
		require.Equal(t, []int64{odd, odd, ids[name][1]}, order, name)
		require.Equal(t, []fifo.Outcome{fifo.Retried, fifo.Succeeded, fifo.Succeeded}, outcomes, name)
		require.ErrorContains(t, errs[0], x.text, name)
		want = append(want, 10*int(odd)+2)
		if x.kept {
			want = append(want, 10*int(odd)+1)
		}
	}
	require.ElementsMatch(t, want, b.effects())
}

var leaveRows = withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, "SELECT 1")
	if err == nil {
		rows.Next()
	}
	return err
})

// Habits of code that owns its transaction do no harm.
func TestIdioms(t *testing.T) {
	insert := func(ctx context.Context, tx bun.Tx, n int) error {
		return second(tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", n))
	}
	rows := map[string]struct {
		do   fifo.Handler
		want []int
	}{
		"rows left open": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) error {
			if err := insert(ctx, tx, 1); err != nil {
				return err
			}
			//nolint:rowserrcheck,sqlclosecheck // the point: database/sql closes them
			rows, err := tx.QueryContext(ctx, "SELECT generate_series(1, 10000)")
			if err == nil {
				rows.Next()
			}
			return err
		}), []int{1}},
		"bun": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) error {
			defer func() { _ = tx.Rollback() }()
			return errors.Join(insert(ctx, tx, 1), tx.Commit())
		}), []int{1}},
		"pgx": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			defer func() { _ = tx.Rollback(ctx) }()
			_, err := tx.Exec(ctx, "INSERT INTO effects VALUES (1)")
			return errors.Join(err, tx.Commit(ctx))
		}), []int{1}},
		"pgx.BeginFunc": {withPgx(func(ctx context.Context, _ *fifo.Job, tx pgx.Tx) error {
			inside := func(values string) error {
				return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
					return second(tx.Exec(ctx, "INSERT INTO effects VALUES "+values))
				})
			}
			if inside("(1), (1/0)") == nil {
				return errOnPurpose
			}
			return inside("(2)")
		}), []int{2}},
		"rollback": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) error {
			return errors.Join(insert(ctx, tx, 1), tx.Rollback())
		}), []int{}},
		"rollback after an error, anew": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) (err error) {
			if insert(ctx, tx, 1) != nil || insert(ctx, tx, 1<<40) == nil {
				return errOnPurpose
			}
			if err := tx.Rollback(); err != nil {
				return err
			}
			if tx, err = job.Tx(ctx); err != nil {
				return err
			}
			return insert(ctx, tx, 2)
		}), []int{2}},
		"commit, anew, rollback": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) (err error) {
			if err := errors.Join(insert(ctx, tx, 1), tx.Commit()); err != nil {
				return err
			}
			if tx, err = job.Tx(ctx); err != nil {
				return err
			}
			return errors.Join(insert(ctx, tx, 2), tx.Rollback())
		}), []int{1}},
		"RunInTx": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) error {
			_ = tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
				return errors.Join(insert(ctx, tx, 1), errOnPurpose)
			})
			return tx.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error { return insert(ctx, tx, 2) })
		}), []int{2}},
		"both": {withTx(func(ctx context.Context, job *fifo.Job, tx bun.Tx) error {
			return errors.Join(exec(ctx, job, "INSERT INTO effects VALUES (2)"), insert(ctx, tx, 1))
		}), []int{1, 2}},
	}
	b := newEffects(t)
	b.run(b.worker(func(ctx context.Context, job *fifo.Job) error { return rows[job.GroupID].do(ctx, job) }, oneLane))
	for name, x := range rows {
		b.send(name, nil)
		require.Equal(t, []fifo.Outcome{fifo.Succeeded}, b.ends(name, 1), name)
		require.Equal(t, x.want, b.effects(), name)
		b.exec("DELETE FROM effects")
	}
}
