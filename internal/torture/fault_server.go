package torture

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// sleepingSQL tells whether a worker is in a COMMIT that takes a while.
const sleepingSQL = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
	AND application_name LIKE 'w%' AND wait_event = 'PgSleep' AND query ILIKE 'commit%')`

// injectTerminate ends a session of a worker, preferably one that holds something, or sometimes one of a producer.
func injectTerminate(ctx context.Context, r *run, rng *rand.Rand) error {
	who, sleeping := "w%", false
	switch n := rng.IntN(10); {
	case n == 0:
		who = "p%" // of a producer, or of a worker's pool
	case n < 3: // in the middle of a COMMIT
		sleeping = until(ctx, 500*time.Millisecond, func() bool {
			r.feed()
			var some bool
			return r.pool.QueryRow(ctx, sleepingSQL).Scan(&some) == nil && some
		})
	case n < 6: // in the middle of a job
		p := r.reserve(rng.IntN, anyone)
		if p == nil {
			return errNotNow
		}
		r.linger(ctx, p)
		defer r.release(p)
		defer p.tell("go")
		who = p.name
	}
	rows, err := r.pool.Query(ctx, `SELECT pid, application_name FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 AND ($2 OR backend_xid IS NOT NULL)
			AND (NOT $3 OR wait_event = 'PgSleep' AND query ILIKE 'commit%')
		ORDER BY pid`, who, rng.IntN(4) == 0, sleeping)
	if err != nil {
		return err
	}
	defer rows.Close()
	var pids []int64
	var names []string
	for rows.Next() {
		var pid int64
		var name string
		if err := rows.Scan(&pid, &name); err != nil {
			return err
		}
		pids, names = append(pids, pid), append(names, name)
	}
	if rows.Err() != nil || len(pids) == 0 {
		return errNotNow
	}
	i := rng.IntN(len(pids))
	rows.Close()
	return r.terminate(ctx, names[i], pids[i])
}

// injectRestart ends the server at once, and starts it again.
func injectRestart(ctx context.Context, r *run, rng *rand.Rand) error {
	defer r.takeDown()()
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
	defer r.takeDown()()
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
