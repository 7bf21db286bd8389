package fifo

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"
)

// A Tx is a transaction of database/sql that the caller began and will end: a bun.Tx, a *bun.Tx or a *sql.Tx, of any
// PostgreSQL driver. A *sql.DB or *bun.DB is not one, on purpose.
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
	// Replaced says of a Duplicate that the job with that ID waited, and has its Payload and Headers now:
	// Message.Replace.
	Replaced bool
}

// Enqueue adds messages to the ends of their groups: all or none, in one round trip. It returns a receipt for each, in
// the order of the messages; of a group, the job with the larger id is worked later. It never waits for a running job,
// unless that has enqueued something with the same DedupID or, with Config.CommitOrder, to one of its groups.
//
// With a DedupID it takes a transaction of four round trips. Of two messages with the same that are enqueued at once,
// the second waits for the first one's transaction to end: if that commits it is a duplicate, else it takes its place.
// A transaction that enqueues several times, with the same DedupIDs as another one in a different order, may deadlock
// with it; PostgreSQL ends one of them (40P01). It also ends a transaction at REPEATABLE READ that meets a duplicate
// which has been committed since it began (40001). Such a transaction replaces nothing that an earlier call has
// enqueued.
//
// A Message with Replace takes one round trip more if it is a duplicate. The job whose payload it replaces does not
// begin until the transaction has ended, and the others of its group wait for that.
//
// It returns ErrInvalidMessage before any SQL if one of the messages cannot be enqueued. If it fails because the
// connection broke, the jobs may have been enqueued all the same; so may those of a transaction whose commit failed
// that way. Messages with a DedupID can be sent again then, within its window. Whether to send others again is for the
// caller to decide, by looking: pgconn.SafeToRetry, of pgx 5.12 at least, also says true of a COMMIT that was sent and
// whose answer was lost.
func (c *Client) Enqueue(ctx context.Context, msgs ...Message) ([]Receipt, error) {
	return c.enqueue(ctx, msgs, func(ctx context.Context, b *batch) ([]int64, error) {
		if err := c.checkPool(ctx); err != nil {
			return nil, err
		}
		ids, err := c.enqueuePool(ctx, b)
		if err == nil && len(ids) > 0 {
			c.announce.committed(b, ids)
		}
		return ids, err
	})
}

// EnqueueTx is Enqueue inside a transaction of database/sql or bun: the jobs exist if and when tx commits.
//
// It adds rows to tx and no NOTIFY: the commit waits for no other, does not fail because workers cannot be told, and
// PREPARE TRANSACTION works. A transaction that stays open after EnqueueTx holds up no job, unless it has replaced one
// (Message.Replace). It holds up no producer but those of the same DedupIDs and, with Config.CommitOrder, those of its
// groups. The jobs' places are drawn now, and not at the commit: see Config.CommitOrder.
//
// The Client tells workers when tx has committed. It asks the server about all such transactions in one statement:
// every millisecond while they are young, then each time when they have grown older by a sixteenth, and at least every
// second. It keeps 1,000 transactions in mind, each for an hour. For others, and if the process ends before it has
// told, workers find the jobs at their next poll.
func (c *Client) EnqueueTx(ctx context.Context, tx Tx, msgs ...Message) ([]Receipt, error) {
	return c.enqueue(ctx, msgs, func(ctx context.Context, b *batch) ([]int64, error) {
		plain, err := plainTx(tx)
		if err != nil {
			return nil, err
		}
		if err := c.check(ctx, sqlQuerier{plain}); err != nil {
			return nil, err
		}
		ids, xid, err := c.enqueueSQL(ctx, plain, b)
		if err == nil && len(ids) > 0 {
			c.announce.enqueued(b, ids, xid, nil)
		}
		return ids, err
	})
}

// EnqueuePgxTx is EnqueueTx for a transaction of pgx. See also InTx.
func (c *Client) EnqueuePgxTx(ctx context.Context, tx pgx.Tx, msgs ...Message) ([]Receipt, error) {
	return c.enqueue(ctx, msgs, func(ctx context.Context, b *batch) ([]int64, error) {
		if isNil(tx) {
			return nil, errNilTx
		}
		if err := c.check(ctx, tx); err != nil {
			return nil, err
		}
		ids, xid, err := c.enqueuePgx(ctx, pgxSession{tx}, b)
		if err == nil && len(ids) > 0 {
			c.announce.enqueued(b, ids, xid, tx.Conn())
		}
		return ids, err
	})
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
		conn := tx.Conn()
		err := f(tx)
		xids = c.announce.on(conn) // now: after the commit the connection may be somebody else's
		return err
	})
	if err == nil {
		c.announce.ended(xids, nil)
	}
	return err
}

// enqueue is what the three have in common: checks, hooks and the answer.
func (c *Client) enqueue(
	ctx context.Context, msgs []Message, do func(context.Context, *batch) ([]int64, error),
) (receipts []Receipt, err error) {
	if c.err != nil {
		return nil, c.err
	}
	if len(msgs) == 0 {
		return nil, nil
	}
	ctx, msgs, end, err := c.hookEnqueue(ctx, msgs)
	defer func() { end(receipts, err) }()
	if err != nil {
		return nil, err
	}
	b, err := encode(msgs)
	if err != nil {
		return nil, err
	}
	ids, err := do(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("fifo: enqueue: %w", err)
	}
	return b.receipts(ids), nil
}

// one reports whether enqueue_one.sql does it.
func (c *Client) one(b *batch) bool {
	return len(b.queues) == 1 && !c.cfg.CommitOrder && b.priorities == nil
}

// single are the arguments of enqueue_one.sql.
func (b *batch) single() []any {
	headers, runAt := (*string)(nil), int64(0)
	if b.headers != nil {
		headers = b.headers[0]
	}
	if b.runAts != nil {
		runAt = b.runAts[0]
	}
	return []any{b.queues[0], b.groups[0], b.payloads[0], b.delays[0], b.maxAttempts[0], headers, runAt}
}

// inOrder tells which messages wait for others of their groups, or nil if none does.
func (c *Client) inOrder(b *batch) []bool {
	if !c.cfg.CommitOrder {
		return nil
	}
	wait := make([]bool, len(b.queues))
	for i := range wait {
		wait[i] = b.ungrouped == nil || !b.ungrouped[i]
	}
	return wait
}

// texts are the arguments of enqueue.sql, arrays as text: not every driver of database/sql takes slices.
func (c *Client) texts(b *batch) []any {
	return []any{
		textArray(b.queues), textArray(b.groups), byteaArray(b.payloads), intArray(b.delays), intArray(b.maxAttempts),
		orNull(c.inOrder(b), boolArray), orNull(b.headers, nullableArray), orNull(b.runAts, intArray[int64]),
		orNull(b.priorities, intArray[int32]),
	}
}

func (c *Client) enqueuePgx(ctx context.Context, s pgxSession, b *batch) (ids []int64, xid int64, err error) {
	if b.dedupIDs != nil {
		return c.enqueueNew(ctx, s, b)
	}
	sql, args := enqueueSQL, []any{
		b.queues, b.groups, b.payloads, b.delays, b.maxAttempts, c.inOrder(b), b.headers, b.runAts, b.priorities,
	}
	if c.one(b) {
		sql, args = enqueueOneSQL, b.single()
	}
	rows, err := s.db.Query(ctx, c.schema.Qualify(sql), args...)
	if err != nil {
		return nil, 0, err
	}
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&id, &xid}, func() error {
		ids = append(ids, id)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	return ids, xid, b.sort(ids)
}

func (c *Client) enqueueSQL(ctx context.Context, tx Tx, b *batch) (ids []int64, xid int64, err error) {
	if b.dedupIDs != nil {
		return c.enqueueNew(ctx, sqlQuerier{tx}, b)
	}
	query, args := enqueueOneSQL, []any(nil)
	if c.one(b) {
		args = b.single()
	} else {
		query, args = enqueueSQL, c.texts(b)
	}
	rows, err := tx.QueryContext(ctx, c.schema.Qualify(query), args...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id, &xid); err != nil {
			return nil, 0, err
		}
		ids = append(ids, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, 0, err
	}
	return ids, xid, b.sort(ids)
}

// sort puts the answer of enqueue.sql in the order of the messages, which is that of the ids.
func (b *batch) sort(ids []int64) error {
	if len(ids) != len(b.queues) {
		return fmt.Errorf("%d jobs for %d messages", len(ids), len(b.queues))
	}
	slices.Sort(ids)
	return nil
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

// Array literals, see "Array Input and Output Syntax" in the PostgreSQL manual.

func textArray(items []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		writeElement(&b, s)
	}
	b.WriteByte('}')
	return b.String()
}

// writeElement writes a text as an element of an array.
func writeElement(b *strings.Builder, s string) {
	b.WriteByte('"')
	b.WriteString(arrayEscaper.Replace(s))
	b.WriteByte('"')
}

var arrayEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// orNull returns the array of items, or nil if there are none.
func orNull[T any](items []T, array func([]T) string) any {
	if items == nil {
		return nil
	}
	return array(items)
}

// nullableArray is textArray for items of which some are not there.
func nullableArray(items []*string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		if s == nil {
			b.WriteString("NULL")
			continue
		}
		writeElement(&b, *s)
	}
	b.WriteByte('}')
	return b.String()
}

func byteaArray(items [][]byte) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, p := range items {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"\\x`)
		b.WriteString(hex.EncodeToString(p))
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

func boolArray(items []bool) string {
	words := make([]string, len(items))
	for i, is := range items {
		words[i] = strconv.FormatBool(is)
	}
	return textArray(words)
}

func intArray[T int32 | int64](items []T) string {
	b := []byte{'{'}
	for i, n := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(append(b, '}'))
}
