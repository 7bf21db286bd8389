package torture

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// watch keeps an eye on the backlog, and says how far the run is.
func (r *run) watch(ctx context.Context) {
	said := time.Now()
	for pause.For(ctx, 50*time.Millisecond) == nil {
		if n := r.jobs(ctx); n >= 0 {
			r.backlog.Store(int64(n))
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			r.log("%v: %d of %d messages done, %d of %d faults begun",
				time.Since(r.began).Round(time.Second), r.progress(), r.cfg.Jobs, r.begun.Load(), r.planned)
		}
	}
}

// markSlow is that of a slow answer. Its note says how slow.
const markSlow = "slow"

// pace takes down when the server, or the machine, was too busy to answer at once: a statement, or a new connection,
// as those are that cancel one. On a pool of its own: a request to cancel nothing may be late, and cancel what comes
// next.
func (r *run) pace(ctx context.Context) {
	pool, err := pgxpool.NewWithConfig(ctx, r.pool.Config())
	if err != nil {
		r.fail(err)
		return
	}
	defer pool.Close()
	for n, began := 1, time.Now(); pause.For(ctx, 50*time.Millisecond) == nil; n, began = n+1, time.Now() {
		err := pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
			if n%5 == 0 {
				return c.Conn().PgConn().CancelRequest(ctx) // of nothing
			}
			_, err := c.Exec(ctx, "SELECT 1")
			return err
		})
		if took := time.Since(began); err == nil && took > stall {
			r.mark(markSlow, "", 0, took.String())
		}
	}
}

// A lockSample is a row of a group, or one of its slots, that was locked at some time after the server was asked and
// before its answer was there; or a group's row that named a session.
type lockSample struct {
	asked int64
	at    int64
	group string
	pid   int64
	xid   string
	who   string // the session's application_name
}

// keptMark begins the xid of a sample of a group that a session has. The claim's token follows.
const keptMark = "token "

func (s *lockSample) kept() bool { return strings.HasPrefix(s.xid, keptMark) }

// how says how the group was somebody's.
func (s *lockSample) how() string {
	if s.kept() {
		return "held"
	}
	return "locked"
}

// sample looks from time to time who has which groups locked.
func (r *run) sample(ctx context.Context) {
	if !r.locks {
		return
	}
	const sql = `SELECT g.queue || '/' || g.group_id, g.pids[1], g.locker::text, coalesce(a.application_name, '')
		FROM (SELECT queue, group_id, pids, locker
		      FROM pgrowlocks('pgfifo.queue_groups') JOIN pgfifo.queue_groups g ON g.ctid = locked_row
		      UNION ALL SELECT queue, group_id, pids, locker
		      FROM pgrowlocks('pgfifo.group_slots') JOIN pgfifo.group_slots s ON s.ctid = locked_row) g
		LEFT JOIN pg_stat_activity a ON a.pid = g.pids[1]
		UNION ALL SELECT g.queue || '/' || g.group_id, coalesce(l.pid, 0), '` + keptMark + `' || g.token,
			coalesce(a.application_name, 'nobody')
		FROM pgfifo.queue_groups g
		LEFT JOIN pgfifo.keepers l USING (session)
		LEFT JOIN pg_stat_activity a USING (pid)
		WHERE g.session IS NOT NULL`
	for pause.For(ctx, time.Second) == nil {
		asked := now()
		rows, err := r.pool.Query(ctx, sql)
		if err != nil {
			continue
		}
		var list []lockSample
		for rows.Next() {
			s := lockSample{asked: asked, at: now()}
			if rows.Scan(&s.group, &s.pid, &s.xid, &s.who) == nil {
				list = append(list, s)
			}
		}
		if rows.Err() == nil {
			r.mu.Lock()
			r.samples = append(r.samples, list...)
			r.mu.Unlock()
		}
	}
}
