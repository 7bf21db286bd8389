package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// beside are the connections of a worker with one lease that are no lanes: one looks for work and one listens; with the
// session lease one holds the groups and two settle jobs. inPool are those of its client's pool at most; all together
// may be as many as connections.
const (
	besideLanes, besideSession = 2, 5
	inPool                     = 4
	connections                = 20
)

// lockTable is how many locks a server has room for with PostgreSQL's default settings: max_locks_per_transaction times
// max_connections. By the manual it is no bound for one process.
const lockTable = 64 * 100

// gather asks how many jobs that take a while one process runs at once, on so many connections, and what it costs to
// have them wait there: memory of the process, and locks of the server.
func (s *sessions) gather(ctx context.Context, b *bench) error {
	lanes := connections - inPool - besideSession
	few := &gathering{crew: &crew{db: b.database, groups: s.crowd, lanes: connections - inPool - besideLanes}}
	wide := &gathering{crew: &crew{db: b.database, groups: s.crowd, lanes: min(s.crowdLanes, s.crowd)}}
	all := &gathering{crew: &crew{db: b.database, groups: s.crowd, lanes: lanes, atOnce: s.crowd}, whole: true}
	for _, g := range []*gathering{few, wide, all} {
		g.takes, g.want = s.takes, g.crew.lanes
		if g.whole {
			g.want = s.crowd
		}
		if err := g.run(ctx, b); err != nil {
			return err
		}
		r := Result{
			System: "crowd, " + leaseName(g.whole), Extra: g.seen,
			Params: map[string]any{"jobs": s.crowd, "takes": s.takes.String()},
		}
		if g.whole {
			r.Rate = float64(s.crowd) / g.took.Seconds()
			r.RatioTo, r.Ratio = "jobs at once of the "+defaultLease, all.seen["at_once"]/few.seen["at_once"]
			r.Goal = goals{
				{Of: "at_once", Op: ">=", Value: float64(s.crowd)},
				{Of: "connections", Op: "<=", Value: connections},
				{Of: "advisory_locks", Op: "<=", Value: 1},
			}
			r.Extra["of_time_at_once"] = s.takes.Seconds() / g.took.Seconds()
			r.Extra["default_lock_table"] = lockTable
		}
		b.report(r)
	}
	return nil
}

// A gathering is one worker whose jobs wait together.
type gathering struct {
	crew  *crew
	want  int  // at once
	whole bool // the jobs take their time, and all are worked; else they end when so many have begun
	takes time.Duration

	running atomic.Int64
	*vigil  // until what is not whole ends
	took    time.Duration
	seen    map[string]float64
}

func (g *gathering) handle(ctx context.Context, _ *fifo.Job) error {
	g.running.Add(1)
	defer g.running.Add(-1)
	if g.whole {
		return pause.For(ctx, g.takes)
	}
	return g.stand(ctx)
}

func (g *gathering) run(ctx context.Context, b *bench) error {
	c := g.crew
	g.vigil, g.seen, c.handler = newVigil(), make(map[string]float64), g.handle
	if err := c.stock(ctx, c.groups); err != nil {
		return err
	}
	before := restingMemory()
	y := newTally(c.groups)
	err := c.run(ctx, y.hooks(), func(ctx context.Context) error {
		defer g.end()
		begin := time.Now()
		err := until(ctx, func() (bool, error) {
			n := int(g.running.Load())
			g.seen["at_once"] = max(g.seen["at_once"], float64(n))
			return n >= g.want, g.look(ctx, b)
		})
		if err != nil {
			return fmt.Errorf("%d of %d at once: %w", int(g.seen["at_once"]), g.want, err)
		}
		g.seen["all_begun_s"] = time.Since(begin).Seconds()
		now := restingMemory()
		each := float64(g.want) * 1024
		g.seen["heap_kib_each"], g.seen["stack_kib_each"] = (now.heap-before.heap)/each, (now.stack-before.stack)/each
		if err := g.look(ctx, b); err != nil || !g.whole {
			return err
		}
		return y.wait(ctx)
	})
	g.took = y.took()
	if err != nil {
		return err
	}
	return c.audit(ctx)
}

// look looks at the process's connections and locks.
func (g *gathering) look(ctx context.Context, b *bench) error {
	var connections, advisory, locks float64
	err := b.pool.QueryRow(ctx, `SELECT count(DISTINCT a.pid), count(*) FILTER (WHERE l.locktype = 'advisory'),
		count(l.locktype)
		FROM pg_stat_activity a LEFT JOIN pg_locks l ON l.pid = a.pid AND l.locktype <> 'virtualxid'
		WHERE a.datname = current_database() AND a.application_name IN ($1, $1 || $2)`, workerName, poolSuffix).
		Scan(&connections, &advisory, &locks)
	for name, n := range map[string]float64{"connections": connections, "advisory_locks": advisory, "locks": locks} {
		g.seen[name] = max(g.seen[name], n)
	}
	return err
}

// A footprint is memory of this process that is in use, in bytes.
type footprint struct{ heap, stack float64 }

func restingMemory() footprint {
	debug.FreeOSMemory() // collects garbage, and shrinks stacks
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{float64(m.HeapAlloc), float64(m.StackInuse)}
}
