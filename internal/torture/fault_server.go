package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// sleepingSQL counts workers in a COMMIT that takes a while.
const sleepingSQL = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
	AND application_name LIKE 'w%' AND wait_event = 'PgSleep' AND query ILIKE 'commit%'`

// injectTerminate ends a session of a worker, preferably one that holds something, or sometimes one of a producer.
func injectTerminate(ctx context.Context, r *run, rng *rand.Rand) error {
	who, sleeping := "w%", false
	switch n := rng.IntN(10); {
	case n == 0:
		who = "p%" // of a producer, or of a worker's pool
	case n < 3: // in the middle of a COMMIT
		sleeping = until(ctx, 500*time.Millisecond, func() bool {
			r.feed()
			return r.number(ctx, sleepingSQL) > 0
		})
	case n < 6: // in the middle of a job
		p := r.reserve(rng.IntN, anyone)
		if p == nil {
			return errNotNow
		}
		r.linger(ctx, p, "linger", anyGroup)
		defer r.release(p)
		defer p.tell("go")
		who = p.name
	}
	var pid int64
	err := r.pool.QueryRow(ctx, `SELECT pid, application_name FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 AND ($2 OR backend_xid IS NOT NULL)
			AND (NOT $3 OR wait_event = 'PgSleep' AND query ILIKE 'commit%')
		ORDER BY random() LIMIT 1`, who, rng.IntN(4) == 0, sleeping).Scan(&pid, &who)
	if err != nil {
		return errNotNow
	}
	return r.terminate(ctx, who, pid)
}

// injectRestart ends the server at once, and starts it again.
func injectRestart(ctx context.Context, r *run, rng *rand.Rand) error {
	r.mark(faultRestart, "", 0, "")
	if err := r.srv.Halt(); err != nil {
		return err
	}
	if rng.IntN(2) == 0 { // workers notice that nobody answers
		_ = pause.For(ctx, time.Second)
	}
	err := r.srv.Resume(ctx)
	r.mark("resumed", "", 0, "")
	return err
}

// injectCrash kills a server process: PostgreSQL then ends all sessions, and recovers.
func injectCrash(ctx context.Context, r *run, _ *rand.Rand) error {
	var pid int64
	var began, again time.Time
	err := r.pool.QueryRow(ctx, `SELECT pid, pg_postmaster_start_time() FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'w%'
		ORDER BY backend_xid IS NULL, random() LIMIT 1`).Scan(&pid, &began)
	if err != nil {
		return errNotNow
	}
	r.mark(faultCrash, "", pid, "")
	if err := killBackend(int(pid)); err != nil {
		return errNotNow // it has just ended
	}
	// The harness's own sessions end with the others: first that, then an answer from a new one.
	until(ctx, 10*time.Second, func() bool {
		return r.pool.QueryRow(ctx, "SELECT now() FROM pg_stat_activity WHERE pid = $1", pid).Scan(&again) != nil
	})
	ok := until(ctx, time.Minute, func() bool {
		conn, err := r.pool.Acquire(ctx)
		if err != nil {
			return false
		}
		defer conn.Release()
		return conn.Ping(ctx) == nil
	})
	r.mark("resumed", "", 0, "")
	if !ok {
		return errNotNow
	}
	return nil
}

// injectVacuum kills all worker processes at once, and has the server vacuum, freeze and write out everything before
// there are others: what could be read off the rows about attempts that died is gone then.
func injectVacuum(ctx context.Context, r *run, rng *rand.Rand) error {
	all := r.workers()
	r.linger(ctx, all[rng.IntN(len(all))], "linger", anyGroup)
	r.staff.Lock()
	defer r.staff.Unlock()
	r.mark("idle", "", 0, "")
	defer func() { r.mark("staffed", "", 0, "") }()
	for _, p := range r.workers() {
		if !p.ended() {
			r.kill(p)
		}
	}
	const holding = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'w%' AND backend_xid IS NOT NULL`
	until(ctx, goneWithin, func() bool { return r.number(ctx, holding) == 0 })
	for _, sql := range []string{"CHECKPOINT", "VACUUM (FREEZE) pgfifo.jobs", "VACUUM (FREEZE) pgfifo.queue_groups"} {
		if _, err := r.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	r.mark(faultVacuum, "", 0, "")
	return nil
}
