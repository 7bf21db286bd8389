package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

func anyone(*process) bool { return true }

// linger waits, for a short while, until a slow handler of the process is in the middle of its job, and keeps it there.
func (r *run) linger(ctx context.Context, p *process) {
	p.tell("linger")
	until(ctx, 1500*time.Millisecond, func() bool {
		r.feed()
		return len(r.hub.held(p.name)) > 0 || p.ended()
	})
}

// injectKill kills a worker process.
func injectKill(ctx context.Context, r *run, rng *rand.Rand) error {
	p := r.reserve(rng.IntN, anyone)
	if p == nil {
		return errNotNow
	}
	if rng.IntN(3) == 0 {
		r.linger(ctx, p)
	}
	r.kill(p)
	name := p.name
	r.children.Go(func() { r.gone(ctx, name) })
	return nil
}

// gone waits until the server has no session left of a process that was killed, and takes down how long that took.
func (r *run) gone(ctx context.Context, name string) {
	const sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()"
	until(ctx, 2*goneWithin, func() bool {
		n := -1
		err := r.pool.QueryRow(ctx, sql, name).Scan(&n)
		return err == nil && n == 0
	})
	r.mark("gone", name, 0, "")
}

// injectBounce has a worker stop as if it were told to for good, and run again in the same process.
func injectBounce(_ context.Context, r *run, rng *rand.Rand) error {
	p := r.reserve(rng.IntN, anyone)
	if p == nil {
		return errNotNow
	}
	defer r.release(p)
	p.tell("go")
	p.tell("bounce")
	r.mark(faultBounce, p.name, 0, "")
	return nil
}

// injectStop freezes a worker process for longer than every timeout.
func injectStop(ctx context.Context, r *run, rng *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
	p := r.reserve(rng.IntN, func(p *process) bool { return p.way != byNet })
	if p == nil {
		return errNotNow
	}
	defer r.release(p)
	r.linger(ctx, p)
	held := r.hub.held(p.name)
	r.mark(faultStop, p.name, 0, "")
	if err := suspend(p.cmd.Process); err != nil {
		return err
	}
	defer p.tell("go")
	defer func() {
		r.mark("cont", p.name, 0, "")
		_ = proceed(p.cmd.Process)
	}()
	r.probe(ctx, held)
	_ = pause.For(ctx, freeze)
	r.still(ctx, p)
	return nil
}

// still looks whether a process that cannot do anything has kept anything until now, and takes that down: how many
// sessions, and what they are at. A server that gets too little of the processor ends sessions late, so it waits as
// long again.
func (r *run) still(ctx context.Context, p *process) {
	if p.ended() {
		return
	}
	const sql = `SELECT count(*), coalesce(string_agg(concat_ws(' ', application_name, pid, state, wait_event,
			now() - xact_start, now() - state_change, query), ' | '), '')
		FROM pg_stat_activity
		WHERE application_name IN ($1, $2) AND datname = current_database() AND backend_xid IS NOT NULL`
	var (
		held int64
		what string
		err  error
	)
	until(ctx, freeze, func() bool {
		err = r.pool.QueryRow(ctx, sql, p.name, poolPrefix+p.name).Scan(&held, &what)
		return err == nil && held == 0
	})
	if err == nil {
		r.mark("held", p.name, held, what)
	}
}
