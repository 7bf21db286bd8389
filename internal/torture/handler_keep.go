package torture

import (
	"context"
	"database/sql"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

const (
	// keepFor is how long a handler tries to write whose attempt is settled.
	keepFor = 100 * time.Millisecond
	// tooLong is how long a statement takes that nobody is to wait for. If its process is frozen, its session ends
	// serverSilence after the statement: 10 s after the beginning, and nobody looks before 13 s, twice freeze.
	tooLong = "6 s"
)

// keep keeps something of the job's transaction, returns an error, and writes by it from another goroutine then, when
// the connection is at its next job. Nothing of that may appear.
func (a *attempt) keep(ctx context.Context) error {
	how, write, err := a.keepsake(ctx)
	if err != nil {
		return err
	}
	settled := make(chan struct{})
	a.waiting.Store([2]int64{a.job.ID, int64(a.job.Attempt())}, settled)
	go func() {
		<-settled
		ctx, cancel := context.WithTimeout(context.Background(), keepFor)
		defer cancel()
		for ctx.Err() == nil {
			_ = write(ctx, a.group, a.job.ID, a.job.Attempt(), how)
			_ = pause.For(ctx, 2*time.Millisecond)
		}
	}()
	return errOnPurpose
}

// strays are what the oids of large objects are higher by than the ids of the jobs that made them.
const strays = 1 << 24

// keepsake returns what is kept, and how to write by it.
func (a *attempt) keepsake(ctx context.Context) (how string, write func(context.Context, ...any) error, err error) {
	switch n := a.N % 4; {
	case n == 0 && a.alone:
		tx, err := a.job.Tx(ctx)
		return "bun", func(ctx context.Context, args ...any) error { return raw(ctx, tx.Tx, args) }, err
	case n == 1 && a.alone:
		tx, err := a.job.Tx(ctx)
		if err != nil {
			return "", nil, err
		}
		inner, err := tx.BeginTx(ctx, nil)
		return "nested bun", func(ctx context.Context, args ...any) error { return raw(ctx, inner.Tx, args) }, err
	case n == 2:
		objects := a.tx.LargeObjects()
		return "large object", func(ctx context.Context, _ ...any) error {
			_, err := objects.Create(ctx, uint32(strays+a.job.ID%strays))
			return err
		}, nil
	default:
		inner, err := a.tx.Begin(ctx)
		return "nested pgx", func(ctx context.Context, args ...any) error {
			_, err := inner.Exec(ctx, straySQL, args...)
			return err
		}, err
	}
}

// raw writes by database/sql.
func raw(ctx context.Context, tx *sql.Tx, args []any) error {
	_, err := tx.ExecContext(ctx, straySQL, args...)
	return err
}

// inFlight returns an error while a statement of the handler is under way, which is to be cut off, and never seen.
func (a *attempt) inFlight(ctx context.Context) error {
	const sql = "INSERT INTO strays SELECT $1::integer, $2::bigint, $3::integer, 'in flight'" +
		" FROM pg_sleep_for('" + tooLong + "')"
	write := func(args ...any) { _, _ = a.tx.Exec(ctx, sql, args...) }
	if a.alone && a.N%4 != 0 {
		tx, err := a.job.Tx(ctx)
		if err != nil {
			return err
		}
		write = func(args ...any) { _, _ = tx.Tx.ExecContext(ctx, sql, args...) }
	}
	begins := make(chan struct{})
	go func() {
		close(begins)
		write(a.group, a.job.ID, a.job.Attempt())
	}()
	<-begins
	_ = pause.For(ctx, 5*time.Millisecond)
	return errOnPurpose
}
