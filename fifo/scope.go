package fifo

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/conforming"
)

// A Scope is what an operator acts on: one queue, or one group of it.
//
//	client.Queue("orders")
//	client.Queue("orders").Group("customer-7")
//
// It is a plain value, made by Client.Queue, which can be copied and kept. An empty name never means all: each verb
// returns ErrInvalidID, before any SQL, for a queue or group with an invalid name. The zero Scope is of no queue.
//
// A verb that changes something does so in a transaction of its own at READ COMMITTED, whatever the database's default
// is: it waits for others that change the same rows, or passes over them, and does not fail. With In or InPgx it is
// part of the caller's transaction instead, whose isolation level the caller has chosen. RetryNow, Delete, Bury, Edit,
// Move and Purge of a queue that has or had Settings.SessionLease want READ COMMITTED, and fail elsewhere (0A000): an
// older snapshot does not show what runs. Nor does it show that SessionLease was switched on after the snapshot was
// taken: the caller's transaction must have begun after that change.
//
// Besides the errors that they name, verbs return those of Open's Config and of migrations.Check, and the database's.
type Scope struct {
	client *Client
	queue  string
	group  string // "": not of one
	level  level
	found  bool // the group's id comes from the database, and is not checked

	in *callerTx // nil: on the client's pool
}

// A callerTx is the transaction in which the verbs of a Scope run.
type callerTx struct {
	db    querier
	pgxTx pgx.Tx // nil if it is one of database/sql
	err   error  // why it cannot be used
}

// A level says how much a Scope covers.
type level int

const (
	ofQueue level = iota
	ofGroup
	ofAll // of a Client
)

// Group returns the Scope of one group of the queue.
func (s Scope) Group(id string) Scope {
	s.group, s.level, s.found = id, ofGroup, false
	return s
}

// groupOf is Group for an id from the database: a job that was written by hand may have an invalid one.
func (s Scope) groupOf(id string) Scope {
	s = s.Group(id)
	s.found = true
	return s
}

// In returns the Scope whose verbs run in a transaction of database/sql or bun. Workers are told when tx has committed,
// as with EnqueueTx. For a nil tx the verbs return an error, if they have anything to do.
func (s Scope) In(tx Tx) Scope {
	plain, err := plainTx(tx)
	s.in = &callerTx{db: sqlQuerier{plain}, err: err}
	return s
}

// InPgx is In for a transaction of pgx.
func (s Scope) InPgx(tx pgx.Tx) Scope {
	if isNil(tx) {
		s.in = &callerTx{err: errNilTx}
	} else {
		s.in = &callerTx{db: pgxSession{tx}, pgxTx: tx}
	}
	return s
}

// String returns the queue, or queue/group, for people.
func (s Scope) String() string {
	switch s.level {
	case ofAll:
		return "all queues"
	case ofGroup:
		return groups.Key{Queue: s.queue, GroupID: s.group}.String()
	default:
		return s.queue
	}
}

// validate returns what is wrong with the names, or with the Client's Config.
func (s Scope) validate() error {
	if s.level != ofAll {
		if err := groups.ValidateID("Queue", s.queue); err != nil {
			return err
		}
	}
	if s.level == ofGroup && !s.found {
		if err := groups.ValidateID("GroupID", s.group); err != nil {
			return err
		}
	}
	return s.client.err
}

// queueOrNull is the queue, or NULL for all, as statements have it.
func (s Scope) queueOrNull() any {
	if s.level == ofAll {
		return nil
	}
	return s.queue
}

// groupOrNull is the group id, or NULL for all of the queue.
func (s Scope) groupOrNull() any {
	if s.level != ofGroup {
		return nil
	}
	return s.group
}

// read runs a statement, and calls f for each row of its answer. It does so in the caller's transaction or on a
// connection of the pool, if nothing is wrong with that, the Scope or the schema. It sends parameters, so the syntax of
// strings does not matter.
func (s Scope) read(ctx context.Context, verb, sql string, f func(row) error, args ...any) error {
	if err := s.validate(); err != nil {
		return err
	}
	sql = s.client.schema.Qualify(sql)
	if s.in != nil {
		err := s.client.checkTx(ctx, s.in)
		if err == nil {
			err = each(ctx, s.in.db, sql, f, args...)
		}
		return s.failed(verb, err)
	}
	conn, err := s.client.acquire(ctx, conforming.Encoding)
	if err == nil {
		defer conn.Release()
		err = each(ctx, pgxSession{conn}, sql, f, args...)
	}
	return s.failed(verb, err)
}

// forget comes before a read of what other sessions do: a transaction that has read that once sees the same again,
// until it forgets it (PostgreSQL manual, "The Cumulative Statistics System").
func (s Scope) forget(ctx context.Context, verb string) error {
	if s.in == nil {
		return nil
	}
	const sql = "SELECT pg_catalog.pg_stat_clear_snapshot()"
	return s.read(ctx, verb, sql, func(row) error { return nil })
}

// readAll is read for a list, of which scan reads a row.
func readAll[T any](
	ctx context.Context, s Scope, verb, sql string, scan func(row) (T, error), args ...any,
) (list []T, err error) {
	err = s.read(ctx, verb, sql, func(r row) error {
		item, err := scan(r)
		list = append(list, item)
		return err
	}, args...)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// change is read for a statement that changes rows.
func (s Scope) change(ctx context.Context, verb, sql string, f func(row) error, args ...any) error {
	return s.together(ctx, verb, func(s Scope) error { return s.read(ctx, verb, sql, f, args...) })
}

// alter is change for a statement that answers with the transaction's id, or with no row if it has done nothing: 0.
func (s Scope) alter(ctx context.Context, verb, sql string, args ...any) (xid int64, err error) {
	err = s.change(ctx, verb, sql, into(&xid), args...)
	return xid, err
}

// together makes several changes in one transaction.
func (s Scope) together(ctx context.Context, verb string, changes func(Scope) error) error {
	if s.in != nil {
		return changes(s)
	}
	if err := s.validate(); err != nil {
		return err
	}
	var refused error
	err := pgx.BeginTxFunc(ctx, s.client.pool, readCommitted, func(tx pgx.Tx) error {
		refused = changes(s.InPgx(tx))
		return refused
	})
	if refused != nil {
		return refused
	}
	return s.failed(verb, err)
}

// announce tells workers what add adds, which the transaction xid has changed: now, or when it has committed.
func (s Scope) announce(xid int64, add func(hints)) {
	switch a := &s.client.announce; {
	case s.in == nil:
		a.say(add)
	case s.in.pgxTx == nil:
		a.sayLater(xid, nil, add)
	default:
		a.sayLater(xid, s.in.pgxTx.Conn(), add)
	}
}

// hint tells workers to look at the queue or the group.
func (s Scope) hint(h hints) {
	if s.level == ofGroup {
		h.add(s.queue, s.group, 0, false)
	} else {
		h.of(s.queue).all = true
	}
}

func (s Scope) failed(verb string, err error) error {
	if err != nil {
		return fmt.Errorf("fifo: %s %v: %w", verb, s, err)
	}
	return nil
}
