package fifo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/sync/errgroup"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schedule"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// How a job goes through this package:
//
//	Worker.Run → a crew for each lease → its seats, a goroutine each → seat.work, again and again:
//
//	Turns.Next ─▶ holder.Step ─▶ attempt ─▶ handlers ─▶ holder.Step ─▶ conclude ─▶ Turns.Done
//	a turn        claims it                             settles, and   hooks, log, and what
//	                                                    claims next    the step could not record
//
// A holder is a lease.Lane, or with Settings.SessionLease a lease.Borrower: leases.go. A turn (package schedule) is a
// group's, and a place is that group in a claim. A task is a held job of the group, and a result is what became of it.

// A crew is what runs between the start and the end of Run: the lanes with a job each, and the scout, the listener, the
// heartbeat and the sweeper beside them.
type crew struct {
	worker *Worker
	set    settings
	log    *slog.Logger
	dialer *lease.Dialer
	source source
	turns  *schedule.Turns
	scout  *schedule.Scout
	seats  []*seat
	left   *leftovers

	teller *teller // shared by all crews of a Run

	stopping                  func() error // of the context of Run: an error when that was told to stop
	laneSetback, scoutSetback atomic.Pointer[setback]
	laneTrouble               limiter

	beside beside
}

// dial opens what the worker needs before it takes any work, so that a limit is found at the start.
func (c *crew) dial(ctx context.Context) error {
	conns := []**pgx.Conn{&c.beside.scout, &c.beside.listen}
	if c.worker.Client.cfg.PollOnly {
		conns = conns[:1]
	}
	if c.set.once {
		conns = nil
	}
	dials := c.source.dials
	for _, conn := range conns {
		dials = append(dials, func(ctx context.Context) (err error) {
			if *conn == nil {
				*conn, err = c.dialer.Connect(ctx)
			}
			return err
		})
	}
	var eg errgroup.Group
	eg.SetLimit(parallelDials())
	for i, dial := range dials {
		eg.Go(func() error { return dialed(dial(ctx), i+1, len(dials)) })
	}
	err := eg.Wait()
	for _, s := range c.seats {
		if err == nil && s.holder == nil { // it has no connection of its own
			err = dialed(s.dial(ctx), 1, len(dials))
		}
	}
	return err
}

// lostSession cancels the handlers whose groups were held by a session that has ended.
func (c *crew) lostSession(why error) {
	for _, s := range c.seats {
		if at := s.at.Load(); at != nil && (*at).HungUp() {
			s.cancel(lease.ErrLost)
		}
	}
	c.log.Warn("pgfifo: the session that holds groups is lost; their jobs run again", "error", why) // it may block
}

// dialed tells "too many connections" (of the server, the database or the role) from other failures to connect: which
// one was refused, of how many.
func dialed(err error, n, of int) error {
	if err == nil {
		return nil
	}
	if pgErr := new(pgconn.PgError); errors.As(err, &pgErr) && pgErr.Code == "53300" {
		return fmt.Errorf("%w: PostgreSQL refused connection %d of the %d that the worker needs beside those of the "+
			"client's pool; lower Concurrency or the pool's MaxConns, or raise max_connections or the role's "+
			"CONNECTION LIMIT: %w", ErrConnections, n, of, err)
	}
	return denied(fmt.Errorf("fifo: connect: %w", err))
}

// run works until ctx is done, and then drains.
func (c *crew) run(ctx context.Context) error {
	// What stands beside the lanes goes on until they have ended: heartbeats above all.
	aside, stopAside := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAside()
	var others sync.WaitGroup
	others.Go(func() { c.turns.Run(ctx) })
	others.Go(func() {
		retry := &redialer{log: c.log, who: scoutName, last: &c.scoutSetback, lost: &c.beside.scoutLost}
		c.beside.run(ctx, retry, &c.beside.scout, c.scout.Run)
	})
	others.Go(func() { c.runHeartbeat(aside) })
	others.Go(func() { c.runStranded(aside) })
	if c.set.sweeps {
		sweeper := &sweeper{crew: c, toldQueues: make(map[string]bool), toldKeys: make(map[int64]bool)}
		others.Go(func() { sweeper.run(ctx) })
	}
	if !c.worker.Client.cfg.PollOnly {
		others.Go(func() {
			retry := &redialer{log: c.log, who: "listener", last: new(atomic.Pointer[setback])}
			c.beside.run(ctx, retry, &c.beside.listen, (&listener{c}).run)
		})
	}

	var lanes sync.WaitGroup
	for _, s := range c.seats {
		lanes.Go(func() {
			s.run(ctx)
			s.ended.Store(true)
		})
	}
	<-ctx.Done()
	latest := time.Now().Add(c.set.drain + grace)
	err := c.drain(finished(lanes.Wait))
	stopAside()
	ended, last := finished(others.Wait), time.Now().Add(lastWait)
	c.source.close(min(max(time.Until(latest), lastWait), grace)) // meanwhile: Run is to return
	if within(time.Until(last), ended) {
		c.beside.close()
	}
	return err
}

const (
	// grace is how long handlers have to return after their contexts were cancelled, and the server to answer what is
	// asked beside them.
	grace = tuning.Grace
	// lastWait is how long lanes have to end after their connections were closed, and then what stands beside them.
	// What they do is quick, unless it is a hook.
	lastWait = tuning.Wait
)

// drain waits for the lanes to end, for a while, and returns an error that names what it leaves behind.
func (c *crew) drain(ended <-chan struct{}) error {
	if c.set.drain > 0 && within(c.set.drain, ended) {
		return c.left.err()
	}
	for _, s := range c.seats {
		s.shut()
	}
	if !within(grace, ended) {
		c.cut()
		if !within(lastWait, ended) {
			c.leaveLanes()
		}
	}
	return c.left.err()
}

// cut abandons the handlers that still run, and ends the statements that lanes wait for: a COMMIT whose standby is
// gone, or any statement behind a lock on a whole table.
func (c *crew) cut() {
	c.left.close()
	for _, s := range c.seats {
		s.cut()
	}
}

// leaveLanes tells of the lanes that do not end.
func (c *crew) leaveLanes() {
	var left []*Job
	for _, s := range c.seats {
		a, job := s.telling.Load(), s.doing.Load()
		switch {
		case s.ended.Load():
		case a != nil:
			c.left.untold(a)
			left = append(left, a.results[0].job)
		case job != nil:
			c.left.lose(job)
			left = append(left, job)
		}
	}
	briefly(func() {
		for _, job := range left {
			c.log.Error("pgfifo: lane does not end", "queue", job.Queue, "group", job.GroupID, "job", job.ID)
		}
	})
}

// briefly calls tell, which logs that a worker begins or ends. It waits no longer than lastWait for a Logger that
// blocks.
func briefly(tell func()) { within(lastWait, finished(tell)) }

// finished calls f in a goroutine of its own, and returns a channel that is closed when that has ended.
func finished(f func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return done
}

// within waits for done, and reports whether that came in time.
func within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
	}
	select {
	case <-done: // at the same time
		return true
	default:
		return false
	}
}

func (c *crew) closeLanes() {
	for _, s := range c.seats {
		if s.holder != nil {
			_ = s.holder.Close()
		}
	}
	c.source.close(lastWait)
	c.beside.close()
}

// runHeartbeat keeps the connections of long jobs alive, and cancels a handler whose connection is lost. A scout that
// has lost its connection looks at once: else it would find that out when it looks next.
func (c *crew) runHeartbeat(ctx context.Context) {
	every(ctx, c.set.bounds.Heartbeat/2, func() {
		if c.beside.scoutHungUp() {
			c.scout.Hurry()
		}
		for _, s := range c.seats {
			s.beat(ctx)
		}
	})
}

// runStranded gives up connections whose answer will not come: those of the scout, of the listener, and of lanes on
// which no handler runs.
func (c *crew) runStranded(ctx context.Context) {
	every(ctx, c.set.bounds.Silence/4, func() {
		var looks errgroup.Group
		looks.SetLimit(parallelDials())
		look := func(who string, cut func(context.Context) error) {
			looks.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, min(grace, c.set.bounds.Silence))
				defer cancel()
				if err := cut(ctx); err != nil {
					c.log.Warn("pgfifo: a connection is given up", "who", who, "error", err)
				}
				return nil
			})
		}
		for _, s := range c.seats {
			if lane := s.unanswered(); lane != nil {
				look("lane", lane.CutStranded)
			}
		}
		c.beside.each(func(who string, conn *pgx.Conn) {
			look(who, func(ctx context.Context) error { return c.dialer.CutStranded(ctx, conn) })
		})
		_ = looks.Wait()
	})
}

// every calls f after each interval, until ctx is done.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.Tick(interval)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
			f()
		}
	}
}

// runOne works one job, if any may run.
func (c *crew) runOne(ctx context.Context) (bool, error) {
	defer c.teller.end(c.log)
	s := c.seats[0]
	conn := s.holder.Lane().Conn()
	if err := checkRights(ctx, c.worker, conn); err != nil {
		return false, err
	}
	if err := c.scout.Walk(ctx, conn); err != nil {
		return false, err
	}
	aside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go c.runHeartbeat(aside)
	ended := make(chan struct{})
	defer close(ended)
	defer context.AfterFunc(ctx, func() {
		s.shut()
		if !within(grace, ended) {
			c.cut()
		}
	})()
	for ctx.Err() == nil && !s.holder.Closed() {
		c.turns.Due()
		turn := c.turns.TryNext()
		if turn == nil {
			break
		}
		if ran, err := s.work(ctx, turn); ran || err != nil {
			return ran, errors.Join(err, c.left.err())
		}
	}
	return false, ctx.Err()
}

// trouble tells that the server refuses something about a group, which is left alone for a while.
func (c *crew) trouble(key groups.Key, err error) {
	c.worker.stats.troubles.Add(1)
	c.log.Warn("pgfifo: trouble with a group; it waits, longer each time",
		"queue", key.Queue, "group", key.GroupID, "error", err)
}
