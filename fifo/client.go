package fifo

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/schema"
	"github.com/pgfifo/pgfifo/migrations"
)

// A Client enqueues messages, and lists jobs, dead letters, groups and pauses of all queues. Client.Queue is where an
// operator begins. A Client is safe for concurrent use.
type Client struct {
	pool     *pgxpool.Pool
	db       *bun.DB
	schema   schema.Name
	cfg      Config
	err      error // of the configuration: every call returns it, before it does anything else
	closed   atomic.Bool
	checked  atomic.Bool // the schema's version is right
	conforms atomic.Bool // a connection of the pool has the right settings
	asked    atomic.Bool // a transaction of database/sql has them, too
	hooks    hooks
	announce announcer
}

// A Config adjusts a Client. Nil and the zero value mean the defaults.
type Config struct {
	// Schema is the PostgreSQL schema of the tables; see migrations.Config. Defaults to "pgfifo".
	Schema string
	// CommitOrder makes producers of one group wait for each other's commit, so that the order of a group is the
	// order in which its enqueues were committed. Without it, the order is that of ids, which are drawn inside the
	// enqueue: it differs only among enqueues that overlap. Every producer of a group must say the same. Transactions
	// that enqueue several times, to the same groups in different orders, may deadlock; PostgreSQL ends one of them
	// (40P01). Each group that a transaction enqueues to is a lock in the server's table of locks, which has room for
	// max_locks_per_transaction times max_connections; Ungrouped messages take none.
	CommitOrder bool
	// PollOnly switches notifications off: for poolers in transaction mode, and where NOTIFY costs too much.
	// Workers then find messages at their next poll.
	//
	// Without it the Client notifies by statements of its own on the pool, at most one a millisecond. It never does
	// so in a caller's transaction, and no enqueue waits for such a statement or fails with it. See EnqueueTx.
	PollOnly bool
	// Hooks are called around enqueues and jobs: in this order before, and in the opposite order after.
	Hooks []Hooks
	// Logger is told of what happens in the background. At level Error: jobs that are given up, panics (with the
	// stack), and handlers that go on after the end of their context. At level Warn: failed and lost attempts, trouble
	// with the database or a group, and queues in which jobs wait and that the worker does not handle. At level Info:
	// that a worker starts or stops, that a queue is available again, and that dead letters have expired. At level
	// Debug: jobs that were given back. The page docs/production.md of the module has the messages and their fields.
	//
	// A Run logs at most 10 errors and 10 warnings of failed attempts in a second, and so does each RunOne. One more
	// line for each level counts the others, when the second is over or when the Run ends; Hooks.Settled has all.
	// Payloads are never logged; of the text of a handler's error, the first 4 KiB are. Lanes wait for the Logger, so
	// it should be quick. One that panics ends the process. Defaults to slog.Default().
	Logger *slog.Logger
}

// Open returns a Client on pool's database. It does no I/O: a database that is not migrated is reported by the first
// call that needs it. So is a Schema that is no name: ErrInvalidConfig; and a connection with
// standard_conforming_strings off or a client_encoding that is not UTF8: ErrNonconforming. The caller still owns pool,
// and closes it after the Client. If Run has returned ErrDrainTimeout, leave that to the end of the program: pool.Close
// waits for each connection that is taken from the pool, and a handler that was left behind may have one. Open panics
// if pool is nil.
func Open(pool *pgxpool.Pool, cfg *Config) *Client {
	if pool == nil {
		panic("fifo: Open: nil pool")
	}
	c := &Client{pool: pool}
	if cfg != nil {
		c.cfg = *cfg
	}
	c.cfg.Logger = cmp.Or(c.cfg.Logger, slog.Default())
	c.hooks = hooks{slices.Clone(c.cfg.Hooks), c.cfg.Logger}
	var err error
	if c.schema, err = schema.Parse(c.cfg.Schema); err != nil {
		c.err = fmt.Errorf("%w: Schema: %w", ErrInvalidConfig, err)
	}
	c.db = bun.NewDB(sql.OpenDB(lease.Lending(pool)), pgdialect.New())
	c.db.SetMaxIdleConns(0) // the pool keeps them
	c.announce.init(c)
	return c
}

// DB returns a bun.DB over the client's pool, for the caller's own queries. Close closes it. Its queries fail with
// ErrNonconforming on a connection where bun's quoting would not hold, or texts would not arrive as they are. Its
// models and query hooks are those of Job.Tx, too. Leave it to the pool to bound and to keep connections: with
// SetMaxOpenConns or SetMaxIdleConns, Job.Tx returns an error.
//
// Put writes that must not happen twice into a transaction: outside one, database/sql may run a statement again if its
// answer was lost with the connection.
func (c *Client) DB() *bun.DB { return c.db }

// Queue returns the Scope of a queue.
func (c *Client) Queue(name string) Scope { return Scope{client: c, queue: name} }

// all returns the Scope of all queues, for calls that only read. Enqueues use it only to carry their transaction.
func (c *Client) all() Scope { return Scope{client: c, level: ofAll} }

// Queues returns the names of the queues that have jobs, dead letters or settings, in order: for what is to be done for
// each of them. A queue that has none of these is not in the list. Queues reads an entry of two indexes for each,
// whatever the backlog.
func (c *Client) Queues(ctx context.Context) ([]string, error) {
	return readAll(ctx, c.all(), "list", statement("queues"), func(r row) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	})
}

// Jobs lists live jobs of all queues, in the order of queue, group id and id, otherwise as Scope.Jobs does.
func (c *Client) Jobs(ctx context.Context, page Page) ([]Job, error) { return c.all().Jobs(ctx, page) }

// DeadLetters lists dead letters of all queues, in the order of Jobs, otherwise as Scope.DeadLetters does.
func (c *Client) DeadLetters(ctx context.Context, of Letters) ([]Job, error) {
	return c.all().DeadLetters(ctx, of)
}

// Groups returns the groups of all queues that have jobs, in the order of queue and group id, otherwise as Scope.Groups
// does.
func (c *Client) Groups(ctx context.Context, page Page, states ...State) ([]Status, error) {
	return c.all().Groups(ctx, page, states...)
}

// Pauses returns the paused queues and groups, also those without jobs, in the order of queue and group id. A queue
// comes before its groups.
func (c *Client) Pauses(ctx context.Context) ([]Pause, error) {
	sql := `SELECT queue, group_id, reason, pgfifo.in_range(paused_at), coalesce(job, 0), by_hand
		FROM pgfifo.pauses WHERE NOT limited ORDER BY queue, group_id`
	return readAll(ctx, c.all(), "list pauses of", sql, func(r row) (p Pause, err error) {
		var pausedAt *time.Time
		err = r.Scan(&p.Queue, &p.GroupID, &p.Reason, &pausedAt, &p.Job, &p.ByHand)
		p.PausedAt = orZero(pausedAt)
		return p, err
	})
}

// Close ends what the client does in the background; the pool stays open. Workers of the client must have ended, and
// cannot be run again. Close announces what has been committed and is not announced yet, for up to a second. What is
// enqueued after Close is not announced: workers find it when they poll.
func (c *Client) Close() error {
	c.closed.Store(true)
	c.announce.close()
	return c.db.Close()
}

// check returns an error if the schema is not migrated, or not to a version that serves this release. It asks once.
func (c *Client) check(ctx context.Context, db rowQuerier) error {
	if c.checked.Load() {
		return nil
	}
	if err := migrations.Check(ctx, db, c.schema.String()); err != nil {
		return err
	}
	c.checked.Store(true)
	return nil
}

// acquire returns a connection of the pool, or an error if look finds something wrong with it, or check with its
// database. The pool has many: each is looked at.
func (c *Client) acquire(ctx context.Context, look func(*pgconn.PgConn) error) (*pgxpool.Conn, error) {
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err = look(conn.Conn().PgConn()); err == nil {
		err = c.check(ctx, conn)
	}
	if err != nil {
		conn.Release()
		return nil, err
	}
	return conn, nil
}

// checkPool returns what is wrong with a connection of the pool, or with its database. It asks once, because a worker
// can begin while all connections are in use.
func (c *Client) checkPool(ctx context.Context) error {
	if c.conforms.Load() {
		return nil
	}
	conn, err := c.connect(ctx)
	if err == nil {
		conn.Release()
	}
	return err
}

// connect returns a connection of the pool on which nothing is wrong with any setting.
func (c *Client) connect(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := c.acquire(ctx, conforming.Check)
	if err == nil {
		c.conforms.Store(true)
	}
	return conn, err
}

// checkTx is check in a transaction of the caller's. It also checks that texts arrive as they are sent. A connection of
// pgx knows that; of database/sql only the first is asked, so the others of the same client must be like it.
func (c *Client) checkTx(ctx context.Context, tx *callerTx) error {
	switch {
	case tx.err != nil:
		return tx.err
	case tx.pgxTx != nil:
		if conn := tx.pgxTx.Conn(); conn != nil {
			if err := conforming.Encoding(conn.PgConn()); err != nil {
				return err
			}
		}
	case !c.asked.Load():
		var strings, encoding string
		if err := tx.db.QueryRow(ctx, conforming.SettingsSQL).Scan(&strings, &encoding); err != nil {
			return err
		}
		if err := conforming.Settings(strings, encoding); err != nil {
			return err
		}
		c.asked.Store(true)
	}
	return c.check(ctx, tx.db)
}
