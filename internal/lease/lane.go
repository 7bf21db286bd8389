package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"

	"github.com/pgfifo/pgfifo/internal/schema"
)

// A Lane is one worker connection. It holds one group at a time, for as long as its transaction is open.
//
// Its methods are for one goroutine, but for Beat, Running, HungUp and Abandon, which are for any. Whoever dialed it
// closes it. A nil Lane stands for none: Aside calls f, Spoiled is false, Undo does nothing. A Borrower that has
// borrowed none returns nil.
type Lane struct {
	conn  *stdlib.Conn // for database/sql; conn.Conn() is the same connection
	stmts statements
	wire  *wire
	db    *bun.DB

	last  pipeline // used again by the next one
	claim claim    // of one group; used again by the next one

	stream    *stream
	heartbeat time.Duration

	control *pgxpool.Pool
	schema  schema.Name

	wary   *atomic.Bool // the Dialer's
	dialed int64        // which one of the process's lanes this is
	pooled bool         // its session is a pooler's: see pooled.go
	of     *Lanes       // to which it goes back when it was lent; nil: it claims for itself

	inTx   bool    // a transaction is open as far as the lane knows
	hold   *Hold   // what it holds, if anything
	loan   *Loan   // the transaction as the handler has it; not nil while there is a hold
	used   bool    // a handler has taken the transaction since the claim
	batch  bool    // the savepoint of a batch was made: a handler of several jobs has taken the transaction
	marked []*Held // heads whose attempts are marked, to be taken back with the transaction
	missed Miss    // why the last claim holds nothing, if it does
	silent time.Duration
	bound  time.Duration // of the server's patience
	lost   atomic.Bool   // a heartbeat found the connection dead
	since  atomic.Int64  // when the handler began, in nanoseconds since epoch, plus 1; 0: none runs
}

// A Call is one settling statement with its parameters in text format. It must change, or return, exactly one row.
type Call struct {
	Statement string
	Args      [][]byte
	// Behind says that it settles jobs behind the head of a batch, which are not locked, so that it may be refused for
	// what somebody has done to them meanwhile. It runs before the others, in the savepoint of the batch: if it is
	// refused the jobs are given back, and no attempt of the head's is lost.
	Behind bool
	// Job is the id of the job whose row it deletes or changes, if that is one and it does so in any case; or 0.
	Job int64
	// Completes says that it completes one job and does nothing else. Its parameters begin with the job's queue, group
	// id and id.
	Completes bool
	// Relaxes says that it has the commit of its transaction not wait for the disk. It is the first call.
	Relaxes bool
}

// ErrNotHeld is returned when a statement that settles a job changed no row: the job was not held any more.
var ErrNotHeld = errors.New("lease: the job is not held any more")

// errNoRow is the ErrNotHeld of Step: a call has found no row, and what else was in its transaction is committed.
var errNoRow = fmt.Errorf("%w: a call has found no row", ErrNotHeld)

// Refused reports whether an error is a server's that goes on working: it has refused a statement, found a job
// otherwise than it was held, or left it as it was. Any other is the connection's.
func Refused(err error) bool {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		return pgErr.Severity != "FATAL" && pgErr.Severity != "PANIC"
	}
	return errors.Is(err, ErrNotHeld) || errors.Is(err, errUnchanged)
}

// ServerWide reports whether a server refuses for reasons that are nobody's in particular: it has no room left, is
// going down, or has become a standby. Then no group is to blame.
func ServerWide(err error) bool {
	code := sqlState(err)
	if len(code) != 5 {
		return false
	}
	switch code[:2] { // see "PostgreSQL Error Codes" in the manual
	case "53", "58": // insufficient resources, system error
		return true
	case "57": // operator intervention, but for a cancelled statement
		return code != statementCancelled
	}
	return code == "25006" || inRecovery(err) // read only
}

// inRecovery reports whether BEGIN, which asks for READ WRITE, was refused by a standby. Its text is in the server's
// language; nothing else of the library's sets a variable that a server refuses as not supported.
func inRecovery(err error) bool {
	pgErr := (*pgconn.PgError)(nil)
	return errors.As(err, &pgErr) && pgErr.Code == notSupported && pgErr.Routine == "call_bool_check_hook"
}

const (
	lockNotAvailable   = "55P03"
	notSupported       = "0A000" // of a prepared statement: its tables were made anew; of BEGIN: see inRecovery
	noSuchStatement    = "26000"
	statementCancelled = "57014"
)

// sqlState returns the code of a server's error, or "" if it is none.
func sqlState(err error) string {
	if pgErr := (*pgconn.PgError)(nil); errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// Blames reports whether a server refuses for a reason of the groups that are asked for, as a trigger has. It is not
// one that a lock is waited for too long.
func Blames(err error) bool { return Refused(err) && !ServerWide(err) && !tooLong(err) }

const ( // names of prepared statements
	stmtBegin      = "pgfifo_begin"
	stmtCommit     = "pgfifo_commit"
	stmtChain      = "pgfifo_chain"
	stmtLock       = "pgfifo_lock"
	stmtLockMany   = "pgfifo_lock_many"
	stmtAhead      = "pgfifo_ahead"
	stmtClaim      = "pgfifo_claim"
	stmtClaimBatch = "pgfifo_claim_batch"
	stmtClaimMany  = "pgfifo_claim_many"
	stmtEvidence   = "pgfifo_evidence"
	stmtUnmark     = "pgfifo_unmark"
	stmtCharge     = "pgfifo_charge"
	stmtRestore    = "pgfifo_restore"
	stmtPaused     = "pgfifo_paused"

	stmtKeepTake     = "pgfifo_keep_take"
	stmtKeepTakeJobs = "pgfifo_keep_take_jobs"
	stmtKeepSame     = "pgfifo_keep_same"
	stmtKeepEnd      = "pgfifo_keep_end"
	stmtKeepDone     = "pgfifo_keep_done"
	stmtBound        = "pgfifo_bound"
	stmtBoundRest    = "pgfifo_bound_rest"
	stmtBarely       = "pgfifo_barely"
	stmtLocal        = "pgfifo_local"

	stmtLockSlot       = "pgfifo_lock_slot"
	stmtClaimSlot      = "pgfifo_claim_slot"
	stmtClaimBatchSlot = "pgfifo_claim_batch_slot"
	stmtClaimManySlot  = "pgfifo_claim_many_slot"

	stmtLockGroupSlot  = "pgfifo_lock_group_slot"
	stmtLockNext       = "pgfifo_lock_next"
	stmtClaimGroupSlot = "pgfifo_claim_group_slot"
)

func (l *Lane) pg() *pgconn.PgConn { return l.conn.Conn().PgConn() }

// Conn returns the lane's connection, for statements while it holds nothing.
func (l *Lane) Conn() *pgx.Conn { return l.conn.Conn() }

// Closed reports whether the lane's connection is gone. A held group is free then.
func (l *Lane) Closed() bool { return l.lost.Load() || l.conn.Conn().IsClosed() }

// Close ends the connection, and with it whatever it holds.
func (l *Lane) Close() error {
	l.forget()
	if l.lost.Load() { // cut off already, and somebody may still be waiting for an answer on it
		l.kill()
		return nil
	}
	return l.conn.Close()
}

// Lane returns the lane itself: that of a Borrower may be another one each time.
func (l *Lane) Lane() *Lane { return l }

// Forfeit is for what Step has left held: a Lane has nothing then.
func (l *Lane) Forfeit(context.Context) {}

// kill cuts the connection from another goroutine. The server rolls back what was open, which counts as a lost
// attempt of the held job.
func (l *Lane) kill() { _ = l.pg().Conn().Close() }

func (l *Lane) forget() {
	if l.hold != nil {
		l.loan.end()
	}
	l.hold, l.inTx, l.used, l.batch, l.marked = nil, false, false, false, nil
}

// Missed returns why the last claim holds nothing, if it does.
func (l *Lane) Missed() Miss { return l.missed }

// Used reports whether a handler has taken the held transaction, and so may have changed the rows of its own jobs.
func (l *Lane) Used() bool { return l.used }

// Step is one round trip: the calls that settle what is held, the end of its transaction, and the claim of next.
//
// Without a hold no calls are made: it returns ErrNotHeld, or ErrLost if the lane is Closed. With next nil the lane
// ends idle, without a transaction. The hold is nil, without an error, if next cannot be had: somebody holds it, it
// has no jobs behind the floor, or its queue is at its limit (Missed). The caller then steps on at once, because the
// missed group's row, or the slot, may be locked until it does.
//
// A next with other groups (Request.With) is claimed with them. If it locks some that have no job, or whose head is to
// run alone (Hold.Apart), another round trip gives all back and claims the others, so that no group is held that is not
// worked. Not so if the worker of one of them has died (Lost): giving it back would cover the evidence, so the hold is
// of all that were claimed, for their lost attempts to be recorded before anything is worked.
//
// settled says that the calls are committed. After an error nothing is held; if settled is false and the lane is
// Closed, the connection broke on the way, and they may be committed all the same. With ErrUnsettled they are not, and
// the handler is not to blame; the lane is Spoiled. A lane that is not Closed can go on; one on which a claim failed
// is: a handler may have left the session in any state (DEALLOCATE ALL, SET ROLE), and a new one has none.
func (l *Lane) Step(ctx context.Context, calls []Call, next *Request) (hold *Hold, settled bool, err error) {
	hold, settled, err = l.step(ctx, calls, next)
	for err == nil && hold != nil && hold.claimed != nil { // each time for fewer
		var lost bool
		if lost, err = l.keepEvidence(ctx, hold); err != nil {
			_ = l.Close()
			return nil, settled, err
		}
		if lost {
			break
		}
		hold, err = l.claimAgain(ctx, next, hold)
	}
	if err == nil {
		if err = l.lostInBatch(ctx, hold); err != nil {
			return nil, settled, err
		}
	}
	return hold, settled, err
}

func (l *Lane) step(ctx context.Context, calls []Call, next *Request) (hold *Hold, settled bool, err error) {
	switch {
	case l.hold == nil && len(calls) > 0 && l.Closed():
		return nil, false, ErrLost
	case l.hold == nil && len(calls) > 0:
		l.forget()
		l.rollback(ctx) // that of a claim that has missed
		return nil, false, ErrNotHeld
	case !l.inTx && next == nil:
		return nil, true, nil
	}
	p := l.pipeline(ctx)
	sent := l.sendCalls(p, calls)
	sent.committed = l.sendEnd(p, next)
	var claimed func() *Hold
	if next != nil {
		claimed = l.sendClaim(p, next)
		defer func() { l.claim.hold = nil }() // its payloads would stay in memory until the next claim
	}
	l.forget()
	if settled, err = l.became(ctx, p, sent, p.exchange()); err != nil {
		return nil, settled, err
	}
	if next != nil {
		hold = claimed()
	}
	l.inTx, l.hold = next != nil, hold
	if hold != nil {
		hold.loan.lane, hold.loan.groupSlot, l.loan = l, hold.GroupSlot, &hold.loan
	}
	return hold, true, nil
}

// A sentStep is what a step has sent. Its numbers say how many answers are to be read until something is so.
type sentStep struct {
	calls     bool    // there are calls
	marked    []*Held // heads whose marks are taken back
	released  int     // the transaction is the claim's and can be committed
	ended     int     // the batch's savepoint is gone; 0: there is none
	committed int     // what the calls have settled is committed
}

// sendCalls settles what is held.
func (l *Lane) sendCalls(p *pipeline, calls []Call) sentStep {
	sent := sentStep{marked: l.marked}
	if len(l.marked) > 0 {
		calls = append(slices.Clip(calls), Call{Statement: stmtUnmark, Args: unmarkArgs(l.marked)})
	}
	if len(calls) == 0 {
		return sent
	}
	sent.calls = true
	sent.released, sent.ended = l.sendRelease(p, calls)
	for _, c := range calls {
		if !c.Behind {
			p.sendCall(c, &p.noRow)
		}
	}
	return sent
}

// sendEnd ends the lane's transaction, if there is one, and begins that of the next claim, if there is one. It returns
// how many answers there are up to that.
func (l *Lane) sendEnd(p *pipeline, next *Request) int {
	switch {
	case !l.inTx:
		p.send(stmtBegin, nil, nil)
	case next != nil:
		p.send(stmtChain, nil, nil)
	default:
		p.send(stmtCommit, nil, nil)
	}
	return len(p.answers)
}

// became returns what has become of a step whose answers were read up to err, if that is not nil.
func (l *Lane) became(ctx context.Context, p *pipeline, sent sentStep, err error) (settled bool, _ error) {
	switch {
	case p.read < sent.released && Refused(err): // it is not the claim's transaction, or cannot be committed
		err = fmt.Errorf("%w: %w", ErrNotHeld, err)
	case p.read >= sent.committed && p.noRow != nil:
		err = p.noRow
	default:
		settled = p.read >= sent.committed
	}
	switch {
	case err == nil:
		return true, nil
	case p.read < sent.ended && l.pg().TxStatus() == 'E' && Refused(err) && l.returnBatch(ctx, sent.marked):
		return false, fmt.Errorf("%w: %w", ErrGivenBack, err)
	case !settled && sent.calls:
		err = l.unsettled(err)
	}
	l.rollback(ctx)
	if settled || !sent.calls { // the claim failed, or BEGIN: the session is of no use
		_ = l.conn.Close()
	}
	return settled, err
}

// rollback leaves the connection without a transaction, or closed. With COMMIT, which rolls a failed transaction back:
// one that has not failed is a new claim beside a settling that did, and is given back as every other. If a handler has
// ended the lane's transaction, what it has set stays, so the session is given up.
func (l *Lane) rollback(ctx context.Context) {
	if l.loan != nil && l.loan.used() {
		l.stream.spoiled.Store(true)
	}
	if !l.Closed() && l.pg().TxStatus() != 'I' {
		if _, err := l.pg().Exec(ctx, commitSQL).ReadAll(); err != nil {
			_ = l.conn.Close()
		}
	}
}

// Lost returns those of the held groups' heads whose last worker died with them. Their marks tell, or the transaction
// that claimed them last: to ask for that costs a round trip. With an error, it returns those of whom it is not known,
// too.
func (l *Lane) Lost(ctx context.Context) (lost []*Held, err error) { return l.dead(ctx, l.hold) }

// dead is Lost for a hold, or none.
func (l *Lane) dead(ctx context.Context, hold *Hold) (lost []*Held, err error) {
	var asked []*Held
	for h := range hold.Heads() {
		switch {
		case h.marked:
			lost, l.marked = append(lost, h), append(l.marked, h)
		case h.perhapsLost():
			asked = append(asked, h)
		}
	}
	if len(asked) == 0 {
		return lost, nil
	}
	p := l.pipeline(ctx)
	for _, h := range asked {
		xids := [][]byte{appendInt(int64(h.jobXID)), appendInt(int64(h.groupXID))}
		p.send(stmtEvidence, xids, func(r *rowReader) {
			if r.bool() { // it died
				lost = append(lost, h)
			}
		})
	}
	err = p.exchange()
	return append(lost, asked[p.read:]...), err // of these it is not known
}
