package torture

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// What faults may be done to.
func anyone(*process) bool      { return true }
func stoppable(p *process) bool { return p.way != byNet }
func anyGroup(int32) bool       { return true }

// linger keeps slow handlers of the process in the middle of their jobs; those that have rows open, if the word is
// read. It waits, for a short while, until there is one of such a group, and returns the groups of all.
func (r *run) linger(ctx context.Context, p *process, word string, wanted func(group int32) bool) (held []int32) {
	p.tell(word)
	until(ctx, 1500*time.Millisecond, func() bool {
		r.feed()
		held = r.hub.held(p.name, word == "read")
		return slices.ContainsFunc(held, wanted) || p.ended()
	})
	return held
}

// injectKill kills a worker process.
func injectKill(ctx context.Context, r *run, rng *rand.Rand, p *process) error {
	if rng.IntN(3) == 0 {
		r.linger(ctx, p, "linger", anyGroup)
	}
	r.kill(p)
	r.children.Go(func() { r.gone(ctx, p.name) })
	return nil
}

// gone waits until the server has no session left of a process that was killed, and takes down how long that took.
func (r *run) gone(ctx context.Context, name string) {
	const sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND datname = current_database()"
	until(ctx, 2*goneWithin, func() bool { return r.number(ctx, sql, name) == 0 })
	r.mark("gone", name, 0, "")
}

// injectBounce has a worker stop as if it were told to for good, and run again in the same process.
func injectBounce(_ context.Context, r *run, _ *rand.Rand, p *process) error {
	p.tell("bounce")
	r.mark(faultBounce, p.name, 0, "")
	return nil
}

// injectStop freezes a worker process for longer than every timeout.
func injectStop(ctx context.Context, r *run, _ *rand.Rand, p *process) error {
	held := r.linger(ctx, p, "linger", anyGroup)
	r.mark(faultStop, p.name, 0, "")
	if err := suspend(p.cmd.Process); err != nil {
		return err
	}
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

// lasts is how long handlers take that take longer than the server bears with silence.
const lasts = 5 * time.Second

// injectHold is no fault: slow handlers of a process take longer than every timeout, and their worker lives. They must
// keep what they hold, and nobody who enqueues behind them may wait.
func injectHold(ctx context.Context, r *run, _ *rand.Rand, p *process) error {
	held := r.linger(ctx, p, "linger", anyGroup)
	if len(held) == 0 {
		return errNotNow
	}
	r.mark(faultHold, p.name, 0, "")
	r.probe(ctx, held)
	return pause.For(ctx, lasts)
}

// injectRead is a misbehaviour of handlers: they keep rows open for longer than every timeout, and go on with what they
// have of them. No heartbeat can pass meanwhile, and the server takes their sessions for silent.
func injectRead(ctx context.Context, r *run, _ *rand.Rand, p *process) error {
	if len(r.linger(ctx, p, "read", anyGroup)) == 0 {
		return errNotNow
	}
	r.mark(faultRead, p.name, 0, "")
	return pause.For(ctx, lasts)
}

// injectSweep freezes a worker process in the middle of a sweep, when it has the rows of idle groups locked, on a
// session of its pool, which is not the library's own; or when it records there what became of a job. Nobody can work
// those groups until it lets go.
func injectSweep(ctx context.Context, r *run, _ *rand.Rand) error {
	if !r.idleGroups(ctx) {
		return errNotNow
	}
	p := r.sweeping(ctx)
	if p == nil {
		return errNotNow
	}
	defer r.release(p)
	defer func() {
		r.mark("cont", p.name, 0, "")
		_ = proceed(p.cmd.Process)
	}()
	_ = pause.For(ctx, freeze)
	r.still(ctx, p)
	return nil
}

// idleGroups reports whether the next sweep has something to do.
func (r *run) idleGroups(ctx context.Context) bool {
	const sql = `SELECT count(*) FROM pgfifo.queue_groups g
		WHERE g.created_at < now() - $1::bigint * interval '1 microsecond'
		  AND NOT EXISTS (SELECT FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id)`
	return r.number(ctx, sql, groupIdle.Microseconds()) > 0
}

// sweeping freezes a process that sweeps just then, and reserves it. A lock on the table of tokens, for a moment, has a
// sweep wait behind the rows that it has locked.
func (r *run) sweeping(ctx context.Context) (p *process) {
	tx, err := r.pool.Begin(ctx)
	if err != nil {
		return nil
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, "LOCK TABLE pgfifo.fences IN SHARE MODE"); err != nil {
		return nil
	}
	const sql = `SELECT coalesce(min(application_name), '') FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'pool-%' AND backend_xid IS NOT NULL
		AND wait_event_type = 'Lock'`
	name := ""
	until(ctx, 500*time.Millisecond, func() bool {
		return r.pool.QueryRow(ctx, sql).Scan(&name) == nil && name != ""
	})
	name = strings.TrimPrefix(name, poolPrefix)
	p = r.reserve(func(int) int { return 0 }, func(p *process) bool { return p.name == name && stoppable(p) })
	if p == nil {
		return nil
	}
	r.mark(faultStop, p.name, 0, "in a sweep")
	if err := suspend(p.cmd.Process); err != nil {
		r.mark("cont", p.name, 0, "")
		r.release(p)
		return nil
	}
	return p
}
