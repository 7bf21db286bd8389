package fifo

import (
	"context"
	"time"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// settings is a Worker with its defaults filled in.
type settings struct {
	kind        *kind // of the queues' lease
	lanes       int
	poll, drain time.Duration
	sweep       time.Duration // how often
	groupIdle   time.Duration
	bounds      lease.Bounds
	name        string
	names       []string          // of the queues, sorted
	queues      map[string]*Queue // with their defaults filled in
	once        bool              // RunOne: one job, and no next one
	sweeps      bool
}

// newCrews returns a crew for each lease that the worker's queues have, ready to run. After an error they are to be
// closed.
func newCrews(ctx context.Context, w *Worker, set settings) (crews []*crew, err error) {
	dialer := newDialer(w, set)
	if err := checkDirect(ctx, dialer); err != nil {
		return nil, err
	}
	conn, err := dialer.Connect(ctx) // the application may use all connections of its pool
	if err != nil {
		return nil, dialed(err, 1, w.concurrency())
	}
	var leases map[string]*kind
	if err = checkRights(ctx, w, conn); err == nil {
		leases, err = leasesOf(ctx, w.Client, conn, set.names)
	}
	if err != nil {
		closeConn(conn)
		return nil, err
	}
	suspects := new(schedule.Suspects)
	for _, k := range kinds {
		part := set
		part.kind, part.lanes, part.sweeps = k, k.lanes(w), len(crews) == 0 && set.sweep >= 0
		part.names, part.queues = nil, make(map[string]*Queue)
		for _, name := range set.names {
			if leases[name] == k {
				part.names, part.queues[name] = append(part.names, name), set.queues[name]
			}
		}
		if len(part.names) == 0 {
			continue
		}
		c := newCrew(w, part)
		c.stopping = ctx.Err
		c.turns.SetSuspects(suspects)
		if len(crews) == 0 {
			c.beside.scout = conn
		} else {
			c.teller = crews[0].teller
		}
		crews = append(crews, c)
		if err := w.lanes.fit(part); err != nil {
			return crews, err
		}
		if err := c.dial(ctx); err != nil {
			return crews, err
		}
	}
	return crews, nil
}

func newCrew(w *Worker, set settings) *crew {
	log := w.Client.cfg.Logger
	c := &crew{worker: w, set: set, log: log, teller: new(teller)}
	c.left = &leftovers{
		stats: &w.stats, log: log, closing: make(chan struct{}), handlers: make(map[<-chan error][]string),
	}
	c.dialer = newDialer(w, set)
	c.beside.dialer = c.dialer
	c.turns = schedule.NewTurns(max(tuning.Known/2, 4*set.lanes))
	for name, q := range set.queues {
		if q.MaxAttempts > 1 && !set.once { // what may be tried only once runs alone
			c.turns.SetBatch(name, schedule.Batch{Jobs: q.BatchJobs, Groups: q.BatchGroups})
		}
		if q.Share != nil {
			s := &sharer{queue: name, of: q.Share, log: log}
			c.turns.SetShares(name, schedule.Shares{Of: s.shares, Weights: q.Weights})
		}
	}
	c.scout = schedule.NewScout(c.turns, set.names, w.Client.schema, set.poll)
	c.scout.Trouble = c.trouble
	for range set.lanes {
		c.seats = append(c.seats, &seat{crew: c})
	}
	c.source = set.kind.source(c)
	return c
}

// newDialer opens the worker's connections.
func newDialer(w *Worker, set settings) *lease.Dialer {
	pool := w.Client.pool.Config() // a copy
	pool.ConnConfig.RuntimeParams[applicationName] = set.name
	d := &lease.Dialer{
		Pool: pool, Control: w.Client.pool, Schema: w.Client.schema,
		Bounds: set.bounds, DB: w.Client.db,
		Statements: settleStatements, Logger: w.Client.cfg.Logger,
	}
	if w.Direct != nil {
		d.Direct = pool.Copy()
		d.Direct.ConnConfig = w.Direct.Copy()
		d.Direct.ConnConfig.RuntimeParams[applicationName] = set.name
	}
	return d
}
