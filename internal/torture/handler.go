package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// handlers are those of a worker process, with what they need.
type handlers struct {
	order
	waiting sync.Map // by job and attempt, channels: closed when it is settled, so that the connection is another one's
	client  *fifo.Client
	pool    *pgxpool.Pool // of that
	book    *journal
	hub     *rpc.Client
	bounce  [2]atomic.Pointer[context.CancelFunc] // end the runs of the workers, each of which is followed by another
	gate    gate                                  // of slow handlers
	readers gate                                  // of those that have rows open
	down    gate                                  // shut while what the handlers of queuePlain need is down
}

// tell is told what the harness wants.
func (h *handlers) tell(word string) {
	switch word {
	case "linger":
		h.gate.shut()
	case "read":
		h.readers.shut()
	case "down":
		h.down.shut()
	case "up":
		h.down.lift()
	case "go":
		h.gate.lift()
		h.readers.lift()
	case "bounce":
		for i := range h.bounce {
			if end := h.bounce[i].Load(); end != nil {
				(*end)()
			}
		}
	}
}

// wordAway is how a handler ends that says Unavailable.
const wordAway = "away"

var errOnPurpose = errors.New("on purpose")

// isDied reports whether an attempt died with its worker, as the one that found it says. A handler may return an
// ErrLost as well, of its own.
func isDied(err error) bool {
	const text = "the outcome was not recorded: the worker or its connection died, or the server refused it"
	return errors.Is(err, fifo.ErrLost) && err.Error() == text
}

// handle is the handler of a single job.
func (h *handlers) handle(ctx context.Context, job *fifo.Job) error {
	return h.one(ctx, job, job.PgxTx, true)
}

// handleBatch is the handler of the jobs of one group.
func (h *handlers) handleBatch(ctx context.Context, jobs []*fifo.Job) error {
	for _, job := range jobs {
		tx, err := job.PgxTx(ctx)
		if err != nil {
			return err
		}
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		err = h.one(ctx, job, func(context.Context) (pgx.Tx, error) { return inner, nil }, false)
		if err != nil {
			if undone := inner.Rollback(ctx); undone != nil {
				return errors.Join(err, undone)
			}
			return fifo.BatchError{job.ID: err} // those behind it run again
		}
		if err := inner.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

// An attempt is one call of a handler for one job.
type attempt struct {
	*handlers
	task
	job   *fifo.Job
	group int32
	tx    pgx.Tx
	alone bool // what it does with the transaction is undone if it returns an error
}

func (a *attempt) note(k kind, arg int64, word string) {
	a.book.write(k, a.group, a.job.ID, a.job.Attempt(), arg, word)
}

// one works one job in the transaction that begin returns, and logs it.
func (h *handlers) one(ctx context.Context, job *fifo.Job, begin func(context.Context) (pgx.Tx, error),
	alone bool,
) (err error) {
	a := &attempt{handlers: h, job: job, alone: alone}
	if a.task, err = readTask(job.Payload); err != nil {
		return err
	}
	if a.group, err = groupFor(job.Queue, job.GroupID, a.task); err != nil {
		return err
	}
	a.note(evStart, a.N, cmp.Or(a.Do, "-"))
	listening := context.AfterFunc(ctx, func() {
		switch cause := context.Cause(ctx); {
		case errors.Is(cause, fifo.ErrLost):
			a.note(evLost, 0, "-")
		case errors.Is(cause, fifo.ErrJobTimeout):
			a.note(evTold, 0, "-")
		}
	})
	defer listening()
	defer func() {
		word := "ok"
		if v := recover(); v != nil {
			a.note(evEnd, 0, "panic")
			panic(v)
		}
		if err != nil {
			switch word = "error"; {
			case fifo.IsUnavailable(err):
				word = wordAway
			case !errors.Is(err, errOnPurpose):
				word += " " + err.Error()
			}
		}
		a.note(evEnd, 0, word)
	}()
	a.kept(ctx)
	if a.Tx == "" {
		if err := a.begin(ctx, begin); err != nil {
			return err
		}
	}
	if err := a.act(ctx); err != nil || a.Tx != txLate {
		return err
	}
	ending, cancel := a.ending(ctx) // another variable: who listens reads ctx
	defer cancel()
	return a.begin(ending, begin)
}

// begin asks for the transaction, and writes the effect.
func (a *attempt) begin(ctx context.Context, begin func(context.Context) (pgx.Tx, error)) (err error) {
	job := a.job
	if a.tx, err = begin(ctx); err != nil {
		return err
	}
	a.note(evTx, int64(a.tx.Conn().PgConn().PID()), "-")
	sql := effectSQL
	if job.Queue == queueSeveral {
		sql = severalSQL
		var by int64
		if err := a.tx.QueryRow(ctx, markSQL, job.ID, job.Attempt()).Scan(&by); err != nil {
			return fmt.Errorf("mark: %w", err)
		}
		a.note(evMark, by, "-")
	}
	if _, err := a.tx.Exec(ctx, sql, a.group, job.ID, job.Attempt(), a.N); err != nil {
		return fmt.Errorf("effect: %w", err)
	}
	if a.Soak && job.ID%64 == 0 {
		var n int64
		if err := a.tx.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_statements").Scan(&n); err != nil {
			return fmt.Errorf("prepared statements: %w", err)
		}
		a.note(evPrepared, n, "-")
	}
	return nil
}

// act does what the task says.
func (a *attempt) act(ctx context.Context) error {
	if a.down.shutNow() && a.job.Queue == queuePlain {
		return fifo.Unavailable(errOnPurpose)
	}
	first := a.job.Attempt() == 1
	switch a.Do {
	case doAway:
		if rand.IntN(2) == 0 {
			return fifo.Unavailable(errOnPurpose)
		}
		return nil
	case doFence, doSlow:
		return a.outside(ctx)
	case doSet:
		return a.set(ctx)
	case doRows:
		return a.rows(ctx)
	case doNap:
		return a.nap(ctx)
	case doLetter:
		return fifo.DeadLetter(errOnPurpose)
	case doMend:
		return a.fails(ctx, time.Minute, "SELECT 1/0")
	case doLate:
		return a.late(ctx)
	case doSpawn:
		return a.spawn(ctx)
	case doCommit:
		_, err := a.tx.Exec(ctx, slowCommitSQL, a.job.ID)
		return err
	case doKill:
		a.note(evExit, 0, "-")
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {} // the signal is on its way
	}
	if !first {
		return nil
	}
	switch a.Do {
	case doStubborn:
		if a.Soak {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		select {} // whatever its context says
	case doHurry:
		// pgx's default is to close the connection then, and with it the transaction that holds the job. The statement
		// ends by itself, before a freeze does: the server takes nobody for silent whose statement it is working on.
		return a.fails(ctx, 5*time.Millisecond, "SELECT pg_sleep(2)")
	case doKeep:
		return a.keep(ctx)
	case doInFlight:
		return a.inFlight(ctx)
	case doError:
		return errOnPurpose
	case doPanic:
		panic(errOnPurpose)
	case doLater:
		if a.job.Queue == queueSeveral { // it holds its group, for long enough to see that
			return fifo.RetryAfter(headHolds, errOnPurpose)
		}
		return fifo.RetryAfter(time.Duration(rand.Int64N(int64(5*time.Millisecond))), errOnPurpose)
	case doSwallow:
		if !a.alone { // the others' work would be undone, too
			return errOnPurpose
		}
		_, _ = a.tx.Exec(ctx, "SELECT 1/0") // and nobody looks at the error
	}
	return nil
}

// fails has a statement fail in a savepoint of its own, or its context end, and goes on as if nothing had happened.
func (a *attempt) fails(ctx context.Context, within time.Duration, sql string) error {
	inner, err := a.tx.Begin(ctx)
	if err != nil {
		return err
	}
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := inner.Exec(short, sql); err == nil {
		return fmt.Errorf("%s within %v", sql, within)
	}
	return inner.Rollback(ctx)
}

// spawn enqueues a job that must exist exactly if this one is done. In a relaxed queue it does not: a crash of the
// server would take both back, and another job could get the id.
func (a *attempt) spawn(ctx context.Context) error {
	if queueOf(a.group) == queueRelaxed {
		return nil
	}
	child := task{N: a.N + children}
	receipts, err := a.client.EnqueuePgxTx(ctx, a.tx, child.message(a.To))
	if err != nil {
		return err
	}
	a.note(evSpawn, child.N, strconv.FormatInt(receipts[0].ID, 10))
	return nil
}

// lingering is how long a slow handler waits at most for the harness to have had its way.
const lingering = 2 * freeze

// outside calls the sink. A slow handler calls it a second time, after whatever the harness does to it; every other one
// does so even though its context has told it that the job is lost.
func (a *attempt) outside(ctx context.Context) error {
	token, err := a.job.Fence(ctx)
	if err != nil {
		return err
	}
	a.note(evFence, token, "-")
	if a.Do != doSlow {
		return a.call(token, phaseOnce)
	}
	return a.lasting(ctx, token, phaseFirst)
}

// lasting calls the sink twice, with a while between.
func (a *attempt) lasting(ctx context.Context, token int64, phase string) error {
	if err := a.call(token, phase); err != nil {
		return err
	}
	_ = pause.For(ctx, time.Millisecond+time.Duration(rand.Int64N(int64(10*time.Millisecond))))
	gates := []*gate{&a.gate}
	if phase == phaseOpen {
		gates = append(gates, &a.readers)
	}
	for _, g := range gates {
		g.wait(ctx, lingering)
		if ctx.Err() != nil && a.N%2 == 0 {
			g.wait(context.WithoutCancel(ctx), lingering) // it does not heed its context
		}
	}
	if err := a.call(token, phaseSecond); err != nil {
		return err
	}
	if a.heedless() {
		return nil
	}
	return ctx.Err()
}

// call writes to the sink.
func (a *attempt) call(token int64, phase string) error {
	accepted := false
	c := Call{a.Name, a.group, a.job.ID, token, a.job.Attempt(), phase}
	if err := a.hub.Call(hubName+".Write", c, &accepted); err != nil {
		return err
	}
	word := "accepted"
	if !accepted {
		word = "refused"
	}
	a.note(evWrite, token, word)
	return nil
}
