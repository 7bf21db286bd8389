package torture

import (
	"context"
	"errors"
	"time"
)

// nap has a statement take a while, which looks at its session. That must listen to nothing: the cluster's queue of
// notices would wait for the end of its transaction. And its snapshots must be as old as its statements.
func (a *attempt) nap(ctx context.Context) error {
	const sql = `SELECT coalesce('listens to ' || (SELECT min(c) FROM pg_listening_channels() c),
		'is ' || nullif(current_setting('transaction_isolation'), 'read committed'), '') FROM pg_sleep(0.02)`
	var amiss string
	err := a.tx.QueryRow(ctx, sql).Scan(&amiss)
	if amiss != "" {
		a.note(evAmiss, 0, amiss)
	}
	return err
}

// hurry has a statement whose own context times out, in a savepoint of its own, and goes on. pgx's default is to close
// the connection then, and with it the transaction that holds the job. The statement ends by itself, before a freeze
// does: the server takes nobody for silent whose statement it is working on.
func (a *attempt) hurry(ctx context.Context) error {
	inner, err := a.tx.Begin(ctx)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := inner.Exec(short, "SELECT pg_sleep(2)"); err == nil {
		return errors.New("two seconds have passed in 5 ms")
	}
	return inner.Rollback(ctx)
}

// late asks for its token only after whatever the harness does to it, and does not heed its context: a former holder
// must not be given one.
func (a *attempt) late(ctx context.Context) error {
	a.gate.wait(context.WithoutCancel(ctx), lingering)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeze)
	defer cancel()
	return a.outside(ctx, false)
}
