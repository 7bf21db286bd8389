package torture

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// injectSweep freezes a worker process in the middle of a sweep, when it has the rows of idle groups locked, on a
// session of its pool, which is not the library's own; or when it records there what became of a job. Nobody can work
// those groups until it lets go.
func injectSweep(ctx context.Context, r *run, _ *rand.Rand) error {
	r.server.RLock()
	defer r.server.RUnlock()
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
func (r *run) idleGroups(ctx context.Context) (some bool) {
	const sql = `SELECT EXISTS (SELECT FROM pgfifo.queue_groups g
		WHERE g.created_at < now() - $1::bigint * interval '1 microsecond'
		  AND NOT EXISTS (SELECT FROM pgfifo.jobs j WHERE j.queue = g.queue AND j.group_id = g.group_id))`
	err := r.pool.QueryRow(ctx, sql, groupIdle.Microseconds()).Scan(&some)
	return err == nil && some
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
	p = r.reserve(func(int) int { return 0 }, func(p *process) bool { return p.name == name && p.way != byNet })
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
