package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
)

// producing is a way to enqueue.
type producing struct {
	call   string // a method of fifo.Client
	into   groupKind
	silent bool // no notifications
}

type groupKind string

const (
	idleGroups groupKind = "" // known and empty
	newGroups  groupKind = "new"
	heldGroups groupKind = "held" // by a worker, in the middle of a job
)

// pgfifo is the library as a system: producers that make one way of calls.
func (s *enqueue) pgfifo(b *bench, l load, p producing) *system {
	params := l.params()
	if p.into != idleGroups {
		params["groups"] = string(p.into)
	}
	if p.silent {
		params["notifications"] = false
	}
	work := func(ctx context.Context, _ int) (each time.Duration, err error) {
		if err := b.exec(ctx, "TRUNCATE pgfifo.jobs, pgfifo.queue_groups"); err != nil {
			return 0, err
		}
		send := func(ctx context.Context) (err error) {
			each, err = s.send(ctx, b, l, p)
			return err
		}
		if p.into == heldGroups {
			err = s.whileHeld(ctx, b, p, send)
			return each, err
		}
		if err := b.makeGroups(ctx, "pgfifo", s.groups); err != nil {
			return 0, err
		}
		err = send(ctx)
		return each, err
	}
	return &system{name: "pgfifo " + p.call, params: params, work: work}
}

// send measures, and counts what arrived.
func (s *enqueue) send(ctx context.Context, b *bench, l load, p producing) (time.Duration, error) {
	enqueue, done, err := p.open(ctx, b.database, l.producers)
	if err != nil {
		return 0, err
	}
	defer done()
	before, err := s.stored(ctx, b)
	if err != nil {
		return 0, err
	}
	desks := make([]desk, l.producers)
	var fresh atomic.Int64
	each, calls, err := l.burst(ctx, s.window, func(ctx context.Context, i int) error {
		msgs := desks[i].write(s, l.messages, p.into, &fresh)
		ids, err := enqueue(ctx, msgs)
		if err == nil && (len(ids) != len(msgs) || !slices.IsSorted(ids)) {
			err = fmt.Errorf("PROMISE BROKEN: %d ids for %d messages, or out of order", len(ids), len(msgs))
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	after, err := s.stored(ctx, b)
	if err == nil && after-before != calls*int64(l.messages) {
		err = fmt.Errorf("PROMISE BROKEN: %d of %d messages are there", after-before, calls*int64(l.messages))
	}
	return each, err
}

func (s *enqueue) stored(ctx context.Context, b *bench) (n int64, err error) {
	err = b.pool.QueryRow(ctx, "SELECT count(*) FROM pgfifo.jobs").Scan(&n)
	return n, err
}

// An enqueueFunc is a call, its transaction and its commit included.
type enqueueFunc = func(context.Context, []fifo.Message) ([]int64, error)

// open returns the way's call, with a client of its own that has its connections already. done closes them.
func (p producing) open(ctx context.Context, db *database, conns int) (call enqueueFunc, done func(), err error) {
	pool, err := db.openWarmPool(ctx, conns)
	if err != nil {
		return nil, nil, err
	}
	client := fifo.Open(pool, &fifo.Config{PollOnly: p.silent})
	done = func() {
		_ = client.Close()
		pool.Close()
	}
	_, err = client.Queue(queue).Jobs(ctx, fifo.Page{Limit: 1}) // the first call checks the schema
	if err == nil {
		call, err = p.caller(client, pool)
	}
	if err != nil {
		done()
	}
	return call, done, err
}

func (p producing) caller(client *fifo.Client, pool *pgxpool.Pool) (enqueueFunc, error) {
	switch p.call {
	case "Enqueue":
		return func(ctx context.Context, msgs []fifo.Message) ([]int64, error) {
			return receipt.IDs(client.Enqueue(ctx, msgs...))
		}, nil
	case "EnqueueTx":
		return func(ctx context.Context, msgs []fifo.Message) ([]int64, error) {
			tx, err := client.DB().BeginTx(ctx, nil)
			if err != nil {
				return nil, err
			}
			defer func() { _ = tx.Rollback() }() // after a commit: harmless
			ids, err := receipt.IDs(client.EnqueueTx(ctx, tx, msgs...))
			if err != nil {
				return nil, err
			}
			return ids, tx.Commit()
		}, nil
	case "EnqueuePgxTx":
		return func(ctx context.Context, msgs []fifo.Message) (ids []int64, err error) {
			err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				ids, err = receipt.IDs(client.EnqueuePgxTx(ctx, tx, msgs...))
				return err
			})
			return ids, err
		}, nil
	case "InTx":
		return func(ctx context.Context, msgs []fifo.Message) (ids []int64, err error) {
			err = client.InTx(ctx, func(tx pgx.Tx) error {
				ids, err = receipt.IDs(client.EnqueuePgxTx(ctx, tx, msgs...))
				return err
			})
			return ids, err
		}, nil
	}
	return nil, fmt.Errorf("no call %q", p.call)
}

// A desk is where one producer writes its messages.
type desk struct {
	msgs []fifo.Message
	next int
}

func (d *desk) write(s *enqueue, n int, into groupKind, fresh *atomic.Int64) []fifo.Message {
	if d.msgs == nil {
		d.msgs = make([]fifo.Message, n)
	}
	for i := range d.msgs {
		number := d.next
		d.next++
		group := number % s.groups
		switch into {
		case newGroups:
			group = s.groups + int(fresh.Add(1))
		case heldGroups:
			group = number % s.held
		}
		d.msgs[i] = fifo.Message{
			Queue: queue, GroupID: groupID(group), Payload: binary.BigEndian.AppendUint64(nil, uint64(number)),
		}
	}
	return d.msgs
}

// whileHeld runs f while a worker is in the middle of a job of each of the held groups. What f sent is taken away again
// before the worker goes on.
func (s *enqueue) whileHeld(ctx context.Context, b *bench, p producing, f func(context.Context) error) error {
	v := newVigil()
	c := &crew{db: b.database, groups: s.held, lanes: s.held, pollOnly: p.silent}
	c.handler = func(ctx context.Context, _ *fifo.Job) error { return v.stand(ctx) }
	c.prepare()
	if err := c.fill(ctx, s.held); err != nil {
		return err
	}
	var last int64
	if err := b.pool.QueryRow(ctx, "SELECT max(id) FROM pgfifo.jobs").Scan(&last); err != nil {
		return err
	}
	err := c.run(ctx, nil, func(ctx context.Context) error {
		defer v.end()
		if err := until(ctx, func() (bool, error) { return c.ledger.count.Load() == int64(s.held), nil }); err != nil {
			return err
		}
		if err := f(ctx); err != nil {
			return err
		}
		_, err := b.pool.Exec(ctx, "DELETE FROM pgfifo.jobs WHERE id > $1", last)
		return err
	})
	if err != nil {
		return err
	}
	return c.audit(ctx)
}

// openWarmPool opens a pool that has its connections already.
func (d *database) openWarmPool(ctx context.Context, conns int) (*pgxpool.Pool, error) {
	pool, err := d.openPool(ctx, conns, conns)
	if err != nil {
		return nil, err
	}
	err = until(ctx, func() (bool, error) { return pool.Stat().IdleConns() >= int32(conns), nil })
	if err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}
