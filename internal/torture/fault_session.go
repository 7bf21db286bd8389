package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// noteHolds is the note of a session's end that held the groups of its worker.
const noteHolds = "it held groups"

const (
	// holdersSQL finds the sessions that hold groups. Sweeps have a lock of their own.
	holdersSQL = "SELECT k.pid FROM pgfifo.keepers k JOIN pgfifo.queue_groups g USING (session)"
	// holderSQL finds the one that holds the groups of a worker. $1 its name.
	holderSQL = "SELECT a.pid FROM pg_stat_activity a WHERE a.application_name = $1 AND a.pid IN (" + holdersSQL + ")"
)

// injectSever ends the session that holds the groups of a worker, often in the middle of jobs.
func injectSever(ctx context.Context, r *run, rng *rand.Rand) error {
	p := r.reserve(rng.IntN, func(p *process) bool { return keepsAt(p.slot) })
	if p == nil {
		return errNotNow
	}
	if _, err := r.holder(ctx, p); err != nil { // before anything lingers, for nothing
		r.release(p)
		return err
	}
	lasts, how := time.Duration(0), rng.IntN(4)
	if how < 2 {
		r.linger(ctx, p, "linger", func(group int32) bool { return keeps(queueOf(group)) })
	}
	if how == 0 { // handlers go on for so long, though their job is lost
		lasts = time.Duration(learnt) + time.Second
	}
	defer r.children.Go(func() {
		_ = pause.For(ctx, lasts)
		p.tell("go")
		r.release(p)
	})
	pid, err := r.holder(ctx, p)
	if err != nil {
		return err
	}
	return r.terminate(ctx, p.name, pid)
}

// holder returns the session that holds the groups of a worker; errNotNow if it holds none.
func (r *run) holder(ctx context.Context, p *process) (pid int64, err error) {
	err = r.pool.QueryRow(ctx, holderSQL, p.name).Scan(&pid)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errNotNow
	}
	return pid, err
}

// terminate ends a session of a process.
func (r *run) terminate(ctx context.Context, name string, pid int64) error {
	var holds, done bool
	if err := r.pool.QueryRow(ctx, "SELECT $1 IN ("+holdersSQL+")", pid).Scan(&holds); err != nil {
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
