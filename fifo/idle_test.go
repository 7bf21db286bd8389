package fifo_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A lane without work whose session was ended notices within a heartbeat and dials again, before there is work.
func TestIdleLaneDialsAgain(t *testing.T) {
	b := newBed(t)
	ids := b.send("g", nil)
	pids := make(chan int, 2)
	r := b.run(b.worker(func(ctx context.Context, job *fifo.Job) error {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		var pid int
		err = tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid)
		pids <- pid
		return err
	}, oneLane, watchful, rarePolls, func(w *fifo.Worker) { w.Name = "idle" }))
	pid := receive(t, pids, "the first job")
	b.drained()
	const sessions = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() " +
		"AND application_name = 'idle'"
	all := query[int](b, sessions)
	require.NoError(t, b.kill(t.Context(), pid))
	await(t, "another session", func() bool { return query[int](b, sessions) == all })
	ids = append(ids, b.send("g", nil)...)
	require.NotEqual(t, pid, receive(t, pids, "the second job"))
	r.finish()
	require.Equal(t, ids, b.ledger.order(), "once each")
}

// So does the session that holds groups, although it holds none.
func TestIdleSessionDialsAgain(t *testing.T) {
	b := bySession.on(newBed(t))
	ids := b.send("g", nil)
	keepers := make(chan int, 2)
	r := b.run(b.worker(func(context.Context, *fifo.Job) error {
		keepers <- b.keeper("g")
		return nil
	}, oneLane, watchful, rarePolls))
	pid := receive(t, keepers, "the first job")
	b.drained()
	const locks = `SELECT coalesce(min(pid), 0) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	require.Equal(t, pid, query[int](b, locks))
	require.NoError(t, b.kill(t.Context(), pid))
	next := 0
	await(t, "another session", func() bool { next = query[int](b, locks); return next != 0 && next != pid })
	ids = append(ids, b.send("g", nil)...)
	require.Equal(t, next, receive(t, keepers, "the second job"))
	r.finish()
	require.Equal(t, ids, b.ledger.order(), "once each")
}
