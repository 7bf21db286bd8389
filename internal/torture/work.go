package torture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgfifo/pgfifo/internal/pause"
)

const (
	// stuckAfter is how long nothing may happen while there is work, not counting the time that the server, or all
	// workers, are down on purpose: on a busy machine a server takes as long to come up.
	stuckAfter = 20 * time.Second
	// drainWithin is how long the rest of the work may take after the last fault, beside time for the work itself.
	drainWithin = 60 * time.Second
	// quietWithin is how long sessions may hold something when there is no work, or be there when their workers have
	// stopped.
	quietWithin = 10 * time.Second
	// stopWithin is how long a worker may take to stop when it is told to.
	stopWithin = 25 * time.Second
	// goneWithin bounds how long the server may keep a session of a killed process. The plan's figure is
	// client_connection_check_interval and 1.5 seconds; this allows for a machine that is busy.
	goneWithin = 15 * time.Second
)

// An endState is what is left when the workers have nothing to do, and when they have stopped.
type endState struct {
	Holding  int // sessions of workers in a transaction that holds something
	Locked   int // rows of groups that somebody has locked
	Kept     int // rows of groups that a session has, and slots of queues that one has which lives
	Groups   int // rows of groups
	Prepared int // prepared transactions
	Sessions int // after the workers have stopped
	Jobs     int // left in the table
}

// A breach is a promise broken, as whoever saw it tells.
type breach struct {
	invariant string
	at        int64
	group     int32 // -1: none
	jobs      []int64
	text      string
}

// breach takes one down.
func (r *run) breach(invariant, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.drain = append(r.drain, breach{invariant: invariant, at: now(), group: -1, text: text})
	r.mu.Unlock()
	r.log("%s: %s", invariant, text)
}

// work runs the processes and injects the faults, to the end of the work.
func (r *run) work(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	faults := r.plan()
	r.planned = int64(len(faults))
	if err := r.delay(ctx); err != nil {
		return err
	}
	r.slots = make([]*process, r.cfg.Processes)
	for slot := range r.slots {
		if err := r.man(slot); err != nil {
			return err
		}
	}
	r.children.Go(func() { r.watch(ctx) })
	r.children.Go(func() { r.pace(ctx) })
	r.children.Go(func() { r.sample(ctx) })
	var producers []*process
	for i := range r.cfg.Producers {
		p, err := r.spawn("producer", fmt.Sprint("p", i+1), -1, direct)
		if err != nil {
			return err
		}
		producers = append(producers, p)
		r.children.Go(func() {
			if err := p.cmd.Wait(); err != nil {
				r.breach("I9", "producer %s ended: %v", p.name, err)
			}
			r.mark("dead", p.name, 0, p.cmd.ProcessState.String())
			close(p.exited)
		})
	}
	defer func() {
		for _, p := range producers {
			_ = p.stdin.Close() // that ends it
		}
	}()
	injected := make(chan struct{})
	go func() {
		defer close(injected)
		r.injectAll(ctx, faults)
	}()
	stuck := r.await(ctx, "the end of the faults", 0, func() bool { return waited(ctx, injected, 0) })
	if !stuck {
		stuck = r.await(ctx, "the producers", 0, func() bool {
			return !slices.ContainsFunc(producers, func(p *process) bool { return !p.ended() })
		})
	}
	if !stuck {
		r.log("all messages are sent; %d jobs to go", r.backlog.Load())
		limit := drainWithin + time.Duration(r.backlog.Load())*5*time.Millisecond
		stuck = r.await(ctx, "an empty queue", limit, func() bool { return r.jobs(ctx) == 0 })
	}
	if err := r.failed(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if stuck {
		r.enough.Store(true)
		groups := r.text(ctx, stuckSQL)
		r.mark("stuck", "", 0, groups)
		if groups != "" {
			r.breach("I8", "stuck groups: %s", groups)
		}
		cancel()
		r.end.Jobs = max(r.jobs(context.WithoutCancel(ctx)), 1)
		<-injected
		r.halt()
		return nil
	}
	if _, err := r.pool.Exec(ctx, "DELETE FROM pgfifo.jobs WHERE group_id LIKE 'z%'"); err != nil {
		return err
	}
	r.quiet(ctx)
	cancel()
	return nil
}

// await waits for a condition, and reports whether that was in vain: nothing happened for stuckAfter, or limit has
// passed (0: none).
func (r *run) await(ctx context.Context, what string, limit time.Duration, cond func() bool) (stuck bool) {
	began := time.Now()
	last, at := r.state(ctx), time.Now()
	for !cond() {
		if pause.For(ctx, 200*time.Millisecond) != nil || r.failed() != nil {
			return false
		}
		if s := r.state(ctx); s != last || r.down.Load() {
			last, at = s, time.Now()
		}
		if time.Since(at) > stuckAfter {
			r.breach("I8", "nothing happened for %v, waiting for %s: %d jobs are left", stuckAfter, what, r.jobs(ctx))
			return true
		}
		if limit > 0 && time.Since(began) > limit {
			r.breach("I8", "%v after the last fault, waiting for %s: %d jobs are left", limit, what, r.jobs(ctx))
			return true
		}
	}
	return false
}

// state is something that changes whenever something is done.
func (r *run) state(ctx context.Context) (s [5]int64) {
	s[0], s[1], s[4] = r.granted.Load(), r.begun.Load(), r.backlog.Load()
	_ = r.pool.QueryRow(ctx, `SELECT (SELECT coalesce(sum(length), 0) FROM chains),
		(SELECT count(*) FROM pgfifo.dead_letters)`).Scan(&s[2], &s[3])
	return s
}

// jobsSQL counts the jobs but for those of delayedID.
var jobsSQL = `SELECT count(*) FROM pgfifo.jobs
	WHERE queue IN (` + queueList + `) AND group_id NOT LIKE 'z%'`

// jobs returns how many there are, or -1.
func (r *run) jobs(ctx context.Context) int { return r.number(ctx, jobsSQL) }

// number returns what a query counts, or -1 if there is no answer.
func (r *run) number(ctx context.Context, sql string, args ...any) (n int) {
	if r.pool.QueryRow(ctx, sql, args...).Scan(&n) != nil {
		return -1
	}
	return n
}

// quiet looks at what is left when all is done, and has the workers stop.
func (r *run) quiet(ctx context.Context) {
	end := &r.end
	*end = endState{Holding: 1, Locked: 1, Kept: 1, Prepared: 1, Sessions: 1, Jobs: 1} // until it is known
	get := func(sql string, to *int) bool {
		return r.pool.QueryRow(ctx, sql).Scan(to) == nil
	}
	const holding = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name <> 'torture' AND backend_xid IS NOT NULL
		  AND backend_type = 'client backend'` // autovacuum has an id, too, when it truncates a table
	if !until(ctx, quietWithin, func() bool { return get(holding, &end.Holding) && end.Holding == 0 }) {
		r.mark("holding", "", 0, r.text(ctx, sessionsSQL))
	}
	until(ctx, quietWithin, func() bool {
		free := 0
		ok := get(`SELECT (SELECT count(*) FROM pgfifo.queue_groups)
				+ (SELECT count(*) FROM pgfifo.group_slots)`, &end.Groups) &&
			get(`SELECT (SELECT count(*) FROM (SELECT FROM pgfifo.queue_groups FOR UPDATE SKIP LOCKED) free)
				+ (SELECT count(*) FROM (SELECT FROM pgfifo.group_slots FOR UPDATE SKIP LOCKED) free)`, &free)
		end.Locked = max(end.Groups-free, 0)
		return ok && end.Locked == 0
	})
	const kept = `SELECT (SELECT count(*) FROM pgfifo.queue_groups WHERE session IS NOT NULL)
		+ (SELECT count(*) FROM pgfifo.slots WHERE session IS NOT NULL
		   AND pgfifo.lives(session))` // that of one that is dead is free
	if !until(ctx, quietWithin, func() bool { return get(kept, &end.Kept) && end.Kept == 0 }) {
		r.mark("kept", "", 0, r.text(ctx, keptBySQL))
	}
	get("SELECT count(*) FROM pg_prepared_xacts", &end.Prepared)
	for _, name := range r.stopWorkers() {
		r.breach("I9", "worker %s did not stop within %v", name, stopWithin)
	}
	// An idle one of a pool is the user's affair: of a worker killed while it was cut off.
	const sessions = `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name <> 'torture' AND backend_type = 'client backend'
		  AND NOT (application_name LIKE 'pool-%' AND state = 'idle')`
	until(ctx, quietWithin, func() bool { return get(sessions, &end.Sessions) && end.Sessions == 0 })
	get(jobsSQL, &end.Jobs)
}

const (
	// sessionsSQL says what all sessions do.
	sessionsSQL = `SELECT coalesce(string_agg(concat_ws(' ', application_name, pid, backend_type, state, wait_event,
		backend_xid, now() - xact_start, left(query, 60)), '; '), '')
		FROM pg_stat_activity WHERE datname = current_database()`
	// keptBySQL says what is some session's.
	keptBySQL = `SELECT coalesce(string_agg(x.what || ' ' || CASE WHEN pgfifo.lives(x.session)
			THEN 'of the living' ELSE 'of the dead' END, '; '), '')
		FROM (SELECT g.queue || '/' || g.group_id || ' job ' || g.job, session FROM pgfifo.queue_groups g
		      UNION ALL SELECT s.queue || ' slot ' || s.n, session FROM pgfifo.slots s) x (what, session)
		WHERE x.session IS NOT NULL`
	// stuckSQL says which groups nobody works.
	stuckSQL = `SELECT coalesce(string_agg(format('%s: %s jobs, head %s, held by %s', g, n, head, holder), '; '), '')
		FROM (SELECT j.queue || '/' || j.group_id, count(*), min(j.id),
			coalesce((SELECT string_agg(concat_ws(' ', a.application_name, a.pid, a.state), ', ')
				FROM pg_stat_activity a WHERE a.backend_xid IS NOT NULL AND
					a.backend_xid = (array_agg(j.xmax ORDER BY j.id))[1]), 'nobody')
			FROM pgfifo.jobs j WHERE j.group_id NOT LIKE 'z%' GROUP BY j.queue, j.group_id ORDER BY min(j.id) LIMIT 10
		) stuck (g, n, head, holder)`
)

// text returns what a query says, in one line.
func (r *run) text(ctx context.Context, sql string) (text string) {
	if err := r.pool.QueryRow(ctx, sql).Scan(&text); err != nil {
		return err.Error()
	}
	return strings.Join(strings.Fields(text), " ")
}
