package torture

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/fifo"
)

// noteHolds is the note of a session's end that held the groups of its worker.
const noteHolds = "it held groups"

// holderSQL finds the session that holds the groups of a worker: the one that has an advisory lock. $1 its name.
const holderSQL = `SELECT a.pid FROM pg_stat_activity a JOIN pg_locks l USING (pid)
WHERE a.datname = current_database() AND a.application_name = $1 AND l.locktype = 'advisory' LIMIT 1`

// injectSever ends the session that holds the groups of a worker, often in the middle of jobs.
func injectSever(ctx context.Context, r *run, rng *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
	p := r.reserve(rng.IntN, func(p *process) bool { return keepsAt(p.slot) })
	if p == nil {
		return errNotNow
	}
	defer r.release(p)
	if rng.IntN(2) == 0 {
		r.linger(ctx, p)
		defer p.tell("go")
	}
	var pid int64
	if err := r.pool.QueryRow(ctx, holderSQL, p.name).Scan(&pid); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return errNotNow
		}
		return err
	}
	return r.terminate(ctx, p.name, pid)
}

// terminate ends a session of a process.
func (r *run) terminate(ctx context.Context, name string, pid int64) error {
	var holds, done bool
	if err := r.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = $1)`,
		pid).Scan(&holds); err != nil {
		return err
	}
	note := ""
	if holds {
		note = noteHolds
	}
	r.mark(faultTerminate, name, pid, note)
	if err := r.pool.QueryRow(ctx, "SELECT pg_terminate_backend($1::integer)", pid).Scan(&done); err != nil {
		return err
	}
	if !done {
		return errNotNow
	}
	return nil
}

// injectLease gives a queue the other lease. Workers that run go on with the one that they have.
func injectLease(ctx context.Context, r *run, _ *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
	queue := r.client.Queue(queueMixed)
	from, err := queue.Settings(ctx)
	if err != nil {
		return err
	}
	if err := queue.Reconfigure(ctx, from, fifo.Settings{SessionLease: !from.SessionLease}); err != nil {
		return err
	}
	r.mark(faultLease, "", 0, "")
	return nil
}
