package fifo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schema"
)

// A Tx is a transaction of database/sql that the caller began and will end: a bun.Tx, a *bun.Tx or a *sql.Tx, of any
// PostgreSQL driver, bun's own (pgdriver) among them. A *sql.DB or *bun.DB is not one, on purpose.
type Tx interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	Commit() error
	Rollback() error
}

// A Receipt says what became of a message.
type Receipt struct {
	ID int64 // the job's
	// Duplicate says that the message was not enqueued, because its DedupID is remembered. ID is that of the job that
	// was first enqueued with it; the job may be done by now, or have another id, by Move say.
	Duplicate bool
	// Replaced says of a Duplicate that the job with that ID waited, and has this message's Payload and Headers now:
	// Message.Replace.
	Replaced bool
}

// Enqueue adds messages to the ends of their groups: all or none, in one round trip. It returns a receipt for each, in
// the order of the messages; of a group, the job with the larger id is worked later. It never waits for a running job,
// unless that has enqueued something with the same DedupID or, with Config.CommitOrder, to one of its groups.
//
// With a DedupID it takes a transaction of four round trips. Of two messages with the same id that are enqueued at
// once, the second waits for the first one's transaction to end: if that commits, the second is a duplicate; else it
// takes the first one's place. A transaction that enqueues several times, with the same DedupIDs as another one in a
// different order, may deadlock with it; PostgreSQL ends one of them (40P01). It also ends a transaction at REPEATABLE
// READ that meets a duplicate which has been committed since it began (40001). Such a transaction replaces nothing that
// an earlier call has enqueued. At SERIALIZABLE it may be ended (40001) though it shares nothing with others.
//
// A Message with Replace takes one round trip more if it is a duplicate. The job whose payload it replaces does not
// begin until the transaction has ended, and the others of its group wait for that.
//
// Without a DedupID, Enqueue uses a transaction with the defaults of the database and the role: where
// default_transaction_read_only is on, it fails (25006).
//
// It returns ErrInvalidMessage before any SQL if one of the messages cannot be enqueued. If a trigger of yours keeps
// one of the jobs from being made, that is an error, and none is made. If it fails because the connection broke, the
// jobs may have been enqueued all the same; so may those of a transaction whose commit failed that way. Messages with a
// DedupID can be sent again then, within its window. Whether to send others again is for the caller to decide, by
// looking: pgconn.SafeToRetry, of pgx 5.12 at least, also says true of a COMMIT that was sent and whose answer was
// lost.
func (c *Client) Enqueue(ctx context.Context, msgs ...Message) ([]Receipt, error) {
	return c.enqueue(ctx, c.all(), msgs)
}

// EnqueueTx is Enqueue inside a transaction of database/sql or bun: the jobs exist if and when tx commits.
//
// A duplicate is no error: tx goes on, and what else was written in it commits. If those writes are only for a message
// that is new, look at Receipt.Duplicate, and roll back.
//
// It adds rows to tx and no NOTIFY: the commit waits for no other, does not fail because workers cannot be told, and
// PREPARE TRANSACTION works. A transaction that stays open after EnqueueTx holds up no job, unless it has replaced one
// (Message.Replace). It holds up no producer but those of the same DedupIDs and, with Config.CommitOrder, those of its
// groups. The jobs' places are drawn now, and not at the commit: see Config.CommitOrder.
//
// The Client tells workers when tx has committed. It asks the server about all such transactions in one statement:
// every millisecond while they are young, then each time when they have grown older by a sixteenth, and at least every
// second. It keeps 32,768 transactions in mind, each for an hour. For others, and if the process ends before it has
// told, workers find the jobs at their next poll.
func (c *Client) EnqueueTx(ctx context.Context, tx Tx, msgs ...Message) ([]Receipt, error) {
	return c.enqueue(ctx, c.all().In(tx), msgs)
}

// EnqueuePgxTx is EnqueueTx for a transaction of pgx. See also InTx.
func (c *Client) EnqueuePgxTx(ctx context.Context, tx pgx.Tx, msgs ...Message) ([]Receipt, error) {
	return c.enqueue(ctx, c.all().InPgx(tx), msgs)
}

// InTx is pgx.BeginFunc on the client's pool: it begins a transaction, calls f with it, and commits; if f returns an
// error or panics, it rolls back and passes that on. What f enqueues in it with EnqueuePgxTx, or redrives or resumes
// with Scope.InPgx, is announced as soon as the commit has returned, because InTx need not ask whether it has
// committed. A nil f is an error.
func (c *Client) InTx(ctx context.Context, f func(tx pgx.Tx) error) error {
	if c.err != nil {
		return c.err
	}
	if f == nil {
		return errors.New("fifo: InTx: nil function")
	}
	var xids []int64
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		conn, begun := tx.Conn(), time.Now()
		err := f(tx)
		if conn.PgConn().TxStatus() != 'I' { // else f has ended or prepared it: the announcer asks
			xids = c.announce.on(conn, begun) // now: after the commit the connection may be somebody else's
		}
		return err
	})
	if err == nil {
		c.announce.ended(xids, nil)
	}
	return err
}

// enqueue enqueues on the pool, or in the transaction of in.
func (c *Client) enqueue(ctx context.Context, in Scope, msgs []Message) (receipts []Receipt, err error) {
	if c.err != nil {
		return nil, c.err
	}
	if len(msgs) == 0 {
		return nil, nil
	}
	ctx, msgs, end, err := c.hooks.enqueue(ctx, msgs)
	defer func() { end(receipts, err) }()
	if err != nil {
		return nil, err
	}
	b, err := encode(msgs)
	if err != nil {
		return nil, err
	}
	fresh, xid, err := in.insert(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("fifo: enqueue: %w", err)
	}
	if len(fresh) > 0 {
		in.announce(xid, func(h hints) { h.addBatch(fresh) })
	}
	return b.receipts(), nil
}

// insert inserts the messages that are no duplicates, and returns those with their ids, and the transaction's id.
func (s Scope) insert(ctx context.Context, b batch) (fresh batch, xid int64, err error) {
	if s.in != nil {
		if err := s.client.checkTx(ctx, s.in); err != nil {
			return nil, 0, err
		}
		return s.client.inserter(s.in.db).insert(ctx, b)
	}
	conn, err := s.client.connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Release()
	if !b.deduplicates() {
		return s.client.inserter(pgxSession{conn}).insert(ctx, b)
	}
	err = pgx.BeginTxFunc(ctx, conn, readCommitted, func(tx pgx.Tx) error { // it takes several statements
		fresh, xid, err = s.client.inserter(pgxSession{tx}).insert(ctx, b)
		return err
	})
	return fresh, xid, err
}

var (
	jobSQL        = "WITH job AS (" + statement("enqueue") + ")"
	enqueueSQL    = jobSQL + statement("enqueued")
	enqueueNewSQL = jobSQL + statement("enqueue_new") + statement("enqueued")
)

// An inserter writes messages, and what is remembered of their deduplication ids, on one connection.
type inserter struct {
	db          querier
	schema      schema.Name
	commitOrder bool
}

func (c *Client) inserter(db querier) inserter { return inserter{db, c.schema, c.cfg.CommitOrder} }

// insert is Scope.insert.
func (in inserter) insert(ctx context.Context, b batch) (fresh batch, xid int64, err error) {
	var sql string
	var args []any
	switch {
	case b.deduplicates():
		if b, err = in.dedup(ctx, b); err != nil || len(b) == 0 {
			return nil, 0, err
		}
		sql, args = enqueueNewSQL, append(b.columns(in.commitOrder), b.keys())
	case len(b) == 1 && !in.commitOrder && b[0].priority == 0:
		sql, args = statement("enqueue_one"), b[0].values()
	default:
		sql, args = enqueueSQL, b.columns(in.commitOrder)
	}
	ids := make([]int64, 0, len(b))
	err = each(lease.Writing(ctx), in.db, in.schema.Qualify(sql), func(r row) error {
		var list string
		if err := r.Scan(&list, &xid); err != nil {
			return err
		}
		for text := range strings.SplitSeq(list, ",") {
			id, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		return nil
	}, args...)
	if err == nil && len(ids) != len(b) {
		err = fmt.Errorf("%d jobs for %d messages", len(ids), len(b))
	}
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(ids) // the order of the messages
	for i, e := range b {
		e.ID = ids[i]
	}
	return b, xid, nil
}

var errNilTx = errors.New("nil transaction")

// plainTx returns the *sql.Tx inside a bun.Tx, which would format the query itself and lose its parameters.
func plainTx(tx Tx) (Tx, error) {
	switch t := tx.(type) {
	case bun.Tx:
		tx = t.Tx
	case *bun.Tx:
		if t == nil {
			return nil, errNilTx
		}
		tx = t.Tx
	}
	if isNil(tx) {
		return nil, errNilTx
	}
	return tx, nil
}

// isNil reports whether a transaction is nil, or a nil pointer.
func isNil(tx any) bool {
	v := reflect.ValueOf(tx)
	return tx == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
