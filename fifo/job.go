package fifo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// A Job is a stored message. It has no field that says "running": a lock that ends with its holder says that, so a
// crash leaves nothing to repair. What a handler writes into its Job does not change what becomes of the job, and Retry
// and Settled do not see it. Only the bytes of the Payload are shared: they see what the handler writes into these in
// place, which is stored nowhere.
//
// A dead letter is a Job, too: one that was given up. Its group went on without it, and its DiedAt says when.
type Job struct {
	bun.BaseModel `bun:"table:pgfifo.jobs,alias:job"`

	Queue   string `bun:"queue,pk"`
	GroupID string `bun:"group_id,pk"`
	// ID is drawn at the enqueue. A dead letter has its job's, and a redrive keeps it unless it is to the tail.
	ID int64 `bun:"id,pk,autoincrement"`
	// Payload is the message's, byte for byte.
	Payload []byte `bun:"payload,notnull"`
	// Headers are the message's, or nil.
	Headers Headers `bun:"headers,type:jsonb,nullzero"`
	// RunAt is when the job may run at the earliest, by the server's clock: a message's delay, or a retry's backoff.
	// Zero: at once. A dead letter has none.
	RunAt time.Time `bun:"run_at,nullzero"`
	// Attempts is how many attempts have failed or were lost. While a handler runs, its own is not among them.
	Attempts int `bun:"attempts,notnull"`
	// MaxAttempts is the message's, or 0. While a handler runs it is what applies.
	MaxAttempts int `bun:"max_attempts,nullzero"`
	// Priority is the message's.
	Priority int `bun:"priority,nullzero"`
	// EnqueuedAt is when the message was enqueued, by the server's clock. Its Delay began a moment before.
	EnqueuedAt time.Time `bun:"enqueued_at,nullzero,notnull,default:clock_timestamp()"`
	// DiedAt is when the job became a dead letter, by the server's clock. Zero: it is none.
	DiedAt time.Time `bun:"died_at,scanonly"`
	// Failures is the history of attempts, oldest first: the last one of a dead letter is what killed it. A handler's
	// Job does not have it; see Client.Jobs.
	Failures []Failure `bun:"failures,type:jsonb,nullzero"`

	loan *lease.Loan // of its handler; nil: it is not a handler's
	held groups.Key  // its group, for Fence, whatever the handler writes into the fields
	// hooked has what the Job hook returned for the attempt, for the Settled hook; nil: there is no Job hook. The
	// handler's Job and the worker's share it, and the hook may be running still when the handler is abandoned.
	hooked *atomic.Pointer[context.Context]
}

// What is read of a job, and of a dead letter.
var (
	selectJobSQL    = selectBothSQL + "pgfifo.in_range(run_at), NULL::timestamptz"
	selectLetterSQL = selectBothSQL + "NULL::timestamptz, pgfifo.in_range(died_at)"
	selectBothSQL   = "SELECT queue, group_id, id, payload, headers, attempts, coalesce(max_attempts, 0), " +
		"pgfifo.in_range(enqueued_at), failures, coalesce(priority, 0), "
)

var (
	firstTime = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// inRange is pgfifo.in_range for a time of a claim.
func inRange(at time.Time) time.Time {
	switch {
	case !at.After(firstTime):
		return time.Time{}
	case at.After(lastTime):
		return lastTime
	}
	return at
}

// scanJob reads a row of a statement that begins with one of these.
func scanJob(r row) (j Job, err error) {
	var enqueuedAt, runAt, diedAt *time.Time
	var headers, failures []byte
	err = r.Scan(&j.Queue, &j.GroupID, &j.ID, &j.Payload, &headers, &j.Attempts, &j.MaxAttempts, &enqueuedAt,
		&failures, &j.Priority, &runAt, &diedAt)
	if err != nil {
		return j, err
	}
	j.EnqueuedAt, j.RunAt, j.DiedAt = orZero(enqueuedAt), orZero(runAt), orZero(diedAt)
	j.Headers, j.Failures = decodeHeaders(headers), decoded[[]Failure](failures)
	return j, nil
}

// newJob returns the Job of what is held, with the attempts that it may have.
func newJob(h *lease.Held, maxAttempts int) *Job {
	return &Job{
		Queue: h.Queue, GroupID: h.GroupID, ID: h.ID, Payload: h.Payload, Headers: decodeHeaders(h.Headers),
		RunAt: inRange(h.RunAt), Attempts: h.Attempts, MaxAttempts: maxAttempts, Priority: h.Priority,
		EnqueuedAt: inRange(h.EnqueuedAt),
	}
}

// A Failure is an attempt that failed or was lost.
type Failure struct {
	Attempt int       `json:"attempt"`
	Kind    string    `json:"kind"`            // one of the Kind constants
	Error   string    `json:"error"`           // cut to a few KiB, and scrubbed of what PostgreSQL cannot store
	Stack   string    `json:"stack,omitempty"` // of a panic
	Worker  string    `json:"worker"`          // who recorded it: for a lost attempt, the one that found it
	At      time.Time `json:"at"`              // when it was recorded, by the server's clock
}

// Kinds of failure.
const (
	KindError   = "error"   // the handler returned an error, or the server refused the job's completion
	KindPanic   = "panic"   // the handler panicked
	KindTimeout = "timeout" // the handler failed after Worker.JobTimeout had passed
	KindLost    = "lost"    // the outcome was not recorded: the worker or its connection died, or the server refused it

	KindOperator = "operator" // no attempt has failed: an operator has given the job up; see Scope.Bury
)

var failureKinds = []string{KindError, KindPanic, KindTimeout, KindLost, KindOperator}

// Group returns the key of the job's group.
func (j *Job) Group() groups.Key { return groups.Key{Queue: j.Queue, GroupID: j.GroupID} }

// Attempt returns the number of the attempt that is under way, from 1.
func (j *Job) Attempt() int { return j.Attempts + 1 }

// Tx returns the job's own transaction. What is written through it commits together with the job's completion, or not
// at all: an error, a panic or a crash undoes it. A handler that sends COMMIT as SQL breaks that itself: what it has
// written is committed then, and the group is free. Its attempt fails, and is counted unless another worker has claimed
// the group by then. The transaction is a savepoint inside the one that holds the job, made by the first call, so its
// Commit and Rollback are harmless: Rollback undoes what was written through it so far, Commit keeps it for when the
// job succeeds. Neither is needed. So defer no Rollback without a Commit: if the handler returns nil, its writes are
// undone, and the job is done all the same. The worker warns of that if it has seen rows written (by an INSERT, say, or
// an enqueue, and not by a function) and no statement has failed. Until a Commit or Rollback, every call returns the
// same transaction, and then a new one. A Rollback is sent even if its context has ended. If it fails all the same,
// with rows open say, nothing that the handler wrote is committed, and the attempt has failed.
//
// It is READ COMMITTED and READ WRITE, whatever the defaults of the database or the role are, and cannot be changed:
// claims need that. So handlers of two groups may each decide by what the other one changes. Lock the rows that a
// decision rests on, with SELECT ... FOR UPDATE, or decide in a transaction of your own.
//
// It begins with the claim of the job, or of its batch, and now() is that time: call clock_timestamp() for the present.
// In a queue with Settings.SessionLease it begins with the first call.
//
// A statement that fails spoils the transaction, as always in PostgreSQL, until a Rollback of it or of one begun on it.
// If the handler returns nil without that, the attempt has failed, with the error of the first such statement: its
// SQLSTATE, and the server's words where they name what is in the database and quote no value.
//
// Collect rows before you work on them: while rows are open the connection is in use. Small results do no harm. If more
// than 1 MiB of a result is left unread for longer than Worker.Silence (10 seconds), while the server waits, no
// heartbeat can be sent to it, and it would take the worker for dead: before that the context ends, with ErrLost, the
// attempt is lost, and the job runs again. The same ends a reader of COPY TO that stands still. A statement may take as
// long as JobTimeout lets it, unless the role or the database has a statement_timeout, which holds for handlers, too.
//
// Leave the library's tables alone, except by EnqueueTx: a handler that updates its own job's row hides its death.
//
// The connection goes on to other jobs, of any queue: set what is to end with the job for its transaction only (SET
// LOCAL, set_config's third argument, pg_advisory_xact_lock, ON COMMIT DROP). That holds for a role, too, such as a
// tenant's, which has no right on the library's tables: the job completes in the worker's own. Enqueue before you take
// it. After SET, set_config with a false, RESET, DISCARD, DEALLOCATE, LISTEN or a cursor WITH HOLD, by the raw PgConn,
// too, the worker gives the connection up and makes a new one, which takes milliseconds. It does not look into
// functions, DO blocks and parameters: what they set for the session stays for other jobs. The worker puts these back:
// roles, the search path, the timeouts of statements, locks and transactions, plan_cache_mode, enable_seqscan,
// enable_bitmapscan and jit. A session's advisory lock, a temporary table and a prepared statement stay, too: the
// worker does not know of them. If such code deallocates the worker's statements, the job is returned once (Returned),
// and runs again; from then on the connection is given up after each job that does that. A temporary table must not be
// named like a type, such as text: PostgreSQL looks for types among them first, and the job could not be completed.
//
// A statement whose context ends is cancelled. If the server does not take the cancel request within Worker.Silence,
// it may meet a later statement of the same job, and of no other; if it meets the job's completion, the job is returned
// and runs again. If it meets COMMIT's wait for a standby, the job is done, and perhaps not yet on the standby. The
// connection is given up.
//
// Nothing of it can be used when the handler has returned: not the transaction, nor what was begun on it, nor large
// objects. If a goroutine of the handler's is in the middle of a statement then, that is cut off with the connection,
// and the attempt has failed.
//
// Use it from one goroutine at a time. Keep slow work before it: rows that it locks stay locked until the job ends.
// ErrNoJob is returned outside a handler.
//
// In a queue with Settings.SessionLease the first call of an attempt takes one of Worker.Concurrency connections until
// the handler returns. It waits for one until its context or the handler's ends. It returns ErrLost if the job is not
// the worker's any more.
func (j *Job) Tx(ctx context.Context) (bun.Tx, error) {
	return lent(j, func(loan *lease.Loan) (bun.Tx, error) { return loan.BunTx(ctx) })
}

// SQLTx is Tx for database/sql: the transaction inside that of Tx.
func (j *Job) SQLTx(ctx context.Context) (*sql.Tx, error) {
	tx, err := j.Tx(ctx)
	return tx.Tx, err
}

// PgxTx is Tx for pgx, with all that is said there (of now(), too), on the same connection and inside the same
// transaction; do not mix open rows of the two. If both are open, the later one has a savepoint of its own. A Rollback
// of one undoes all that was written since it began, through either of the two, committed or not, and ends all that
// were begun after it, on either. Once PgxTx has asked the server for the savepoint, it waits for the answer even if
// ctx ends: that is one round trip, which waits for no lock.
//
// Do not keep its Conn: statements on that are refused between jobs, but the next job's handler has the same one, and
// they would run in its transaction. What is written on it between two transactions of a job is undone with the second.
func (j *Job) PgxTx(ctx context.Context) (pgx.Tx, error) {
	return lent(j, func(loan *lease.Loan) (pgx.Tx, error) { return loan.PgxTx(ctx) })
}

// Fence returns the fencing token of the attempt that is under way, for effects outside the database: a number higher
// than that of every earlier holder of the job's group, committed before it is returned.
//
// A worker that was frozen or cut off may go on with its job without knowing that somebody else has it by now. Send the
// token with each write to another system, have that system remember the highest one that it has seen for the group,
// and refuse what comes with a lower one: then, once the successor has written, nothing that a former holder sends is
// taken.
//
// The first call of an attempt takes the job's transaction, as Tx does, writes one row through a connection of the
// client's pool, and waits until that is durable; later ones return the same number. Jobs that do not ask pay nothing.
// In a queue with Settings.SessionLease the claim has drawn the number, and a call asks nobody.
// Numbers of one group grow, with gaps. A failover to a server that lacks the newest commits may give out numbers anew.
//
// Where several jobs of a group may run at once (Settings.GroupLimit), either of two that do may have the higher
// number. Then a number is higher only than those of earlier attempts at the same job: have the other system remember
// them by job.
//
// It returns ErrLost if the attempt's transaction has ended, or the job is held no more, and ErrNoJob outside a
// handler.
func (j *Job) Fence(ctx context.Context) (int64, error) {
	return lent(j, func(loan *lease.Loan) (int64, error) { return loan.Fence(ctx, j.held) })
}

// lent asks for something of the job's transaction, which is there while its handler runs. A goroutine that the handler
// has left behind may ask.
func lent[T any](j *Job, what func(*lease.Loan) (T, error)) (T, error) {
	if j.loan == nil || j.loan.Ended() {
		return *new(T), ErrNoJob
	}
	got, err := what(j.loan)
	if errors.Is(err, lease.ErrEnded) { // between the two
		err = fmt.Errorf("%w: %w", ErrNoJob, err)
	}
	return got, err
}

// Cursor returns the job's place in lists, for Page.After. It can be put into a URL as it is.
func (j *Job) Cursor() string { return position{j.Group(), j.ID}.cursor() }
