package fifo

import (
	"cmp"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/conforming"
	"github.com/pgfifo/pgfifo/internal/lease"
)

// ErrNonconforming is returned on a connection whose settings would change what is sent, before anything of the
// caller's is sent. The text names the setting, and says what to set.
//
// With standard_conforming_strings off a backslash could end a quoted value. Enqueue, DB, Run and RunOne return it, and
// all that runs in a transaction of database/sql: its driver may write parameters into the text. All else is sent as
// parameters, so the verbs of a Scope and the lists work there all the same.
//
// With a client_encoding that is not UTF8, SQL_ASCII too, the server would take ids, headers and reasons for other
// texts. Every call returns it; the worker's own connections set UTF8 for themselves.
//
// A Client asks only the first transaction of database/sql: the others should have the same settings.
var ErrNonconforming = conforming.Err

// ErrInvalidConfig is returned, before any SQL, by the calls of a Client whose Config.Schema cannot be a schema's name.
var ErrInvalidConfig = errors.New("fifo: invalid config")

// Errors of scopes and lists, before any SQL.
var (
	// ErrInvalidID says that what a verb or a list is asked for is invalid. It is returned for a queue name or group id
	// that is empty, longer than groups.MaxIDBytes, not valid UTF-8, or not printable. It is also returned for a text
	// that PostgreSQL cannot have, in a Page, in Letters or as a reason; for a reason of more than MaxReasonBytes; for
	// Letters that contradict each other, or that choose nothing for a verb that changes something; for a verb that is
	// of a group only or of a queue only; and by Move to another schema.
	ErrInvalidID = groups.ErrInvalidID
	// ErrInvalidState is returned by Groups for a State that it cannot be asked for, and for a text that is no State.
	ErrInvalidState = errors.New("fifo: invalid state")
)

// What verbs on one job return if they did nothing.
var (
	// ErrJobNotFound says that there is no such job: it is done, is a dead letter, was deleted, or never was; or it has
	// another id, by Move, a redrive to the tail or a DeadLetterQueue. For a dead letter the text says which verb to
	// use.
	ErrJobNotFound = errors.New("fifo: there is no such job")
	// ErrJobHeld says that the job is running, that somebody else is changing it, that one of these was so a moment
	// ago, or that its row cannot be deleted because of a foreign key or a trigger; the text says which.
	ErrJobHeld = errors.New("fifo: the job is held")
)

// Errors of settings.
var (
	// ErrInvalidSettings is returned by Configure and Reconfigure, before any SQL, except for what depends on the
	// settings that the queue has had; the text names the field.
	ErrInvalidSettings = errors.New("fifo: invalid settings")
	// ErrConflict is returned by Configure and Reconfigure for a queue that has other settings, or a lease of a newer
	// release; the text has those that differ. Nothing was changed. A program that gets it at its start logs it and
	// goes on: see Configure.
	ErrConflict = errors.New("fifo: conflict of settings")
)

// Errors of messages, before any SQL.
var (
	// ErrInvalidMessage is returned for a message that cannot be enqueued as it is; the text names the message's
	// index and the field. Nothing was enqueued.
	ErrInvalidMessage = errors.New("fifo: invalid message")
	// ErrPayloadTooLarge is ErrInvalidMessage for a payload of more than MaxPayloadBytes, and for messages that have
	// more than MaxEnqueueBytes together.
	ErrPayloadTooLarge = fmt.Errorf("%w: payload too large", ErrInvalidMessage)
)

// Errors of workers.
var (
	// ErrNoHandler is returned by Run and RunOne of a Worker that has no handler.
	ErrNoHandler = errors.New("fifo: worker has no handler")
	// ErrRunning is returned by Run of a Worker that is running already.
	ErrRunning = errors.New("fifo: worker is running already")
	// ErrInvalidWorker is returned by Run, RunOne and SetLanes for fields or a name that make no sense, by Run and
	// RunOne if Direct leads to another database than the Client's pool, and by Run and SetLanes for lanes that are too
	// few for what the queues keep; the text says which.
	ErrInvalidWorker = errors.New("fifo: invalid worker")
	// ErrNotReady is wrapped by the error of Ready, if the Worker cannot find or take jobs now; the text says why.
	ErrNotReady = errors.New("fifo: worker is not ready")
	// ErrConnections is returned by Run and RunOne when PostgreSQL does not give the worker the connections that it
	// needs: one a lane, one to look for work, and one to listen unless PollOnly is set.
	ErrConnections = errors.New("fifo: not enough connections")
	// ErrPooled is returned by Run and RunOne when a pooler shares the worker's sessions with others, as in transaction
	// mode.
	ErrPooled = lease.ErrPooled
	// ErrStandby is returned by Run and RunOne when the server is a hot standby. If it becomes one later, Run goes on
	// dialing, and Worker.Ready tells.
	ErrStandby = lease.ErrStandby
	// ErrRights is returned by Run and RunOne when the role of the worker's connections lacks rights that every worker
	// needs; the text names the role, and them. See migrations.Grant.
	ErrRights = errors.New("fifo: the worker's role lacks rights")
	// ErrDrainTimeout is returned by Run when it leaves something behind: handlers that still run although their
	// contexts have ended, jobs whose outcome is unknown because the server did not answer in time, or hooks that were
	// told what became of a job and have not returned. The text names the jobs. Their connections were closed, so those
	// that are not done are free for others as soon as the server notices.
	ErrDrainTimeout = errors.New("fifo: drain timeout")
)

// ErrAbandoned is wrapped by the err of Settled if the handler was left behind, and the text of the Failure has it in
// it; see Worker.AbandonAfter.
var ErrAbandoned = errors.New("fifo: the handler ignored the end of its context; it was abandoned")

// Causes with which a handler's context is cancelled; see context.Cause.
var (
	// ErrJobTimeout says that the job ran longer than Worker.JobTimeout. The attempt has failed, unless the handler
	// returns nil then.
	ErrJobTimeout = errors.New("fifo: job timeout")
	// ErrShutdown says that the worker is stopping and DrainTimeout has passed. The job is given back and no attempt
	// is counted, unless the handler returns nil then.
	ErrShutdown = errors.New("fifo: worker is shutting down")
	// ErrCanceled says that an operator has canceled what runs in the queue or group: Scope.Cancel. The job is given
	// back and no attempt is counted, unless the handler returns nil then.
	ErrCanceled = errors.New("fifo: canceled by an operator")
	// ErrLost says that the connection that holds the job is gone, or that the group was taken from the worker
	// (Scope.Terminate): somebody else may run it by now. With Settings.SessionLease one connection holds all jobs of a
	// process.
	ErrLost = lease.ErrLost
)

// ErrNoJob is returned by Tx, SQLTx, PgxTx and Fence of a Job that is not being handled.
var ErrNoJob = errors.New("fifo: Tx and Fence work only while the handler of the job runs")

// interrupted reports whether what a handler returns after the end of its context says nothing about the job.
func interrupted(cause error) bool {
	return errors.Is(cause, ErrShutdown) || errors.Is(cause, ErrCanceled)
}

// A PanicError is the error of a handler or a hook that panicked, or that ended its goroutine.
type PanicError struct {
	Value any    // what was passed to panic
	Stack []byte // of the goroutine that panicked

	who string // "": the handler
}

// newPanicError is called while the stack is still there. v is what recover returned.
func newPanicError(who string, v any) *PanicError {
	if v == nil {
		v = fmt.Errorf("the %s's goroutine exited", who)
	}
	return &PanicError{Value: v, Stack: debug.Stack(), who: who}
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("fifo: %s panicked: %v", cmp.Or(e.who, "handler"), e.Value)
}

// Unwrap returns the value passed to panic if that is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
