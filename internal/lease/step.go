package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A step settles what a lane holds, ends its transaction, and claims what is next, in one round trip: what is sent, and
// what has become of it. The claim's part is in claim.go.

// Step is one round trip: the calls that settle what is held, the end of its transaction, and the claim of next.
//
// Without a hold no calls are made: it returns ErrNotHeld, or ErrLost if the lane is Closed. With next nil the lane
// ends idle, without a transaction. The hold is nil, without an error, if next cannot be had: somebody holds it, it
// has no jobs behind the floor, or its queue is at its limit (Missed). The caller then steps on at once, because the
// missed group's row, or the slot, may be locked until it does. It is also nil if a cancel that was sent to end a wait
// may yet come (waitBound). The lane is Closed then, and the calls are committed.
//
// A next with other groups (Request.With) is claimed with them. If it locks some that have no job, or whose head is to
// run alone (Hold.Apart), another round trip gives all back and claims the others, so that no group is held that is not
// worked. That is not done if the worker of one of them has died (Lost): giving it back would cover the evidence. Then
// the hold is of all that were claimed, for their lost attempts to be recorded before anything is worked.
//
// settled says that the calls are committed. After an error nothing is held; if settled is false and the lane is
// Closed, the connection broke on the way, and they may be committed all the same. With ErrUnsettled they are not, and
// the handler is not to blame; the lane is Spoiled. A lane that is not Closed can go on. One on which a claim failed is
// Closed: a handler may have left the session in any state (DEALLOCATE ALL, SET ROLE), and a new session has none.
func (l *Lane) Step(ctx context.Context, calls []Call, next *Request) (hold *Hold, settled bool, err error) {
	hold, settled, err = l.step(ctx, calls, next)
	for err == nil && hold != nil && hold.claimed != nil { // each time for fewer
		all := &Hold{Held: hold.claimed[0], Rest: hold.claimed[1:]}
		lost, failed := l.dead(ctx, all)
		if failed != nil {
			return nil, settled, failed
		}
		if len(lost) > 0 { // to give them back would cover the evidence
			hold.Held, hold.Rest = all.Held, all.Rest
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
	bound := l.boundWait(ctx, calls)
	p := l.pipeline(ctx)
	l.claims.locked, l.claims.own = l.claims.locked[:0], 0
	sent := l.sendCalls(p, calls)
	sent.committed = l.sendEnd(p, next)
	var claimed func() *Hold
	if next != nil {
		claimed = l.claims.send(p, next)
		defer l.claims.claim.forget()
	}
	l.forget()
	err = p.exchange()
	looked := bound.end()
	sent.cancelled = looked.ended
	if looked.stray {
		l.stream.cancelledLate()
	}
	if settled, err = l.became(ctx, p, sent, err); err != nil {
		l.cover(ctx, err)
		if settled || !sent.calls { // the claim failed, or BEGIN: the session is of no use
			_ = l.conn.Close()
		}
		return nil, settled, err
	}
	if next != nil {
		hold = claimed()
	}
	l.inTx, l.hold = next != nil, hold
	if looked.stray { // a cancel that may yet come must meet nobody's handler
		l.giveUp(ctx)
		return nil, true, nil
	}
	if hold != nil {
		hold.loan.lane, hold.loan.groupSlot, l.loan = l, hold.GroupSlot, &hold.loan
	}
	return hold, true, nil
}

// take begins a transaction in which the lane holds what a session has claimed: from then on it is as if the lane had
// claimed it. It returns ErrNotHeld if some of that is not the claim's any more; then the lane holds nothing. It waits
// for whoever has a row locked.
func (l *Lane) take(ctx context.Context, hold *Hold, loan *Loan, wait patience) error {
	l.loan = nil // that of the job before
	p := l.pipeline(ctx)
	l.begin(p)
	taken := sendTake(p, hold, wait)
	xid, err := taken(p.exchange())
	if err != nil {
		l.rollback(ctx)
		return fmt.Errorf("lease: take: %w", err)
	}
	l.hold = &Hold{Held: hold.Held, Rest: hold.Rest} // as if it had claimed them
	l.hold.Seen.XID = xid
	l.loan, l.inTx = loan, true
	loan.lane = l
	return nil
}

// A sentStep is what a step has sent. Its numbers say how many answers are to be read until something is so.
type sentStep struct {
	calls     bool    // there are calls
	marked    []*Held // heads whose marks are taken back
	released  int     // the transaction is the claim's and can be committed
	ended     int     // the batch's savepoint is gone; 0: there is none
	committed int     // what the calls have settled is committed
	cancelled bool    // one of its statements may have been cancelled
}

// sendCalls settles what is held.
func (l *Lane) sendCalls(p *pipeline, calls []Call) sentStep {
	sent := sentStep{marked: l.marked}
	if len(sent.marked) > 0 {
		calls = append(slices.Clip(calls), Call{Statement: stmtUnmark, Args: unmarkArgs(sent.marked)})
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

// sendRelease ends the savepoints of what is to be settled, and settles what is behind the head of a batch. released
// and ended count answers. Once released are read, the transaction is the claim's and can be committed. Once ended are
// read, the batch's savepoint is gone; 0: there is none.
func (l *Lane) sendRelease(p *pipeline, calls []Call) (released, ended int) {
	if l.loan.used() {
		p.send(stmtRestore, [][]byte{appendInt(l.hold.Seen.XID)}, nil)
		// It ends SET TRANSACTION READ ONLY. And a subtransaction that changes the locked row makes a MultiXact of its
		// xmax, which is no evidence of a crash.
		p.send(stmtRelease, nil, nil)
	}
	behind := slices.ContainsFunc(calls, func(c Call) bool { return c.Behind })
	switch {
	case l.batch:
		p.send(stmtConstraints, nil, nil)
		p.send(stmtCursors, nil, nil) // also those that a deferred trigger has made
	case behind:
		p.send(stmtBatch, nil, nil)
	}
	released = len(p.answers)
	for _, c := range calls {
		if c.Behind {
			p.sendCall(c, &p.noRow)
		}
	}
	if l.batch || behind {
		p.send(stmtReleaseBatch, nil, nil)
		ended = len(p.answers)
	}
	return released, ended
}

// became returns what has become of a step whose answers were read up to err, if that is not nil.
func (l *Lane) became(ctx context.Context, p *pipeline, sent sentStep, err error) (settled bool, _ error) {
	unheld := p.read < sent.released && Refused(err) // it is not the claim's transaction, or cannot be committed
	if p.read >= sent.committed && p.noRow != nil {
		err = p.noRow
	} else {
		settled = p.read >= sent.committed
	}
	switch {
	case err == nil:
		return true, nil
	case p.read < sent.ended && l.pg().TxStatus() == 'E' && Refused(err) && l.returnBatch(ctx, sent.marked):
		return false, fmt.Errorf("%w: %w", ErrGivenBack, err)
	case unheld: // read before, because returnBatch has used p again
		err = l.unsettled(fmt.Errorf("%w: %w", ErrNotHeld, err), sent.cancelled)
	case !settled && sent.calls:
		err = l.unsettled(err, sent.cancelled)
	}
	l.rollback(ctx)
	return settled, err
}

// returnBatch ends the transaction of a batch that cannot be settled without what its handlers wrote, and reports
// whether it could.
func (l *Lane) returnBatch(ctx context.Context, marked []*Held) bool {
	p := l.pipeline(ctx)
	p.sendText(undoBatch)
	if len(marked) > 0 {
		p.send(stmtUnmark, unmarkArgs(marked), nil)
	}
	p.send(stmtCommit, nil, nil)
	return p.exchange() == nil
}

// rollback leaves the connection without a transaction, or closed. It sends COMMIT, which rolls back a failed
// transaction. One that has not failed is a new claim beside a settling that has failed, and is given back like every
// other. If a handler has ended the lane's transaction, what it has set stays, so the session is given up.
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

// claimAgain gives up a claim of many groups and makes it again, for those that may be worked together: no group stays
// locked that is not worked.
func (l *Lane) claimAgain(ctx context.Context, next *Request, had *Hold) (*Hold, error) {
	together := make(map[int]bool, 1+len(had.Rest))
	for h := range had.Heads() {
		together[h.N] = true
	}
	list := slices.DeleteFunc(next.all(), func(r Request) bool { return !together[r.N] })
	again := list[0]
	again.With, again.Ahead = list[1:], 0
	hold, _, err := l.step(ctx, nil, &again)
	if hold != nil {
		hold.Apart = had.Apart
		for i := range had.claimed {
			if h := &had.claimed[i]; h.Seen.Alone {
				hold.Apart = append(hold.Apart, h.N)
			}
		}
	}
	return hold, err
}

// giveUp gives back what the lane has claimed, and closes it. A death that this would hide is looked for.
func (l *Lane) giveUp(ctx context.Context) {
	failed := l.pg().TxStatus() == 'E'
	if l.rollback(ctx); !failed && !l.Closed() { // it is committed
		l.claims.locked = slices.DeleteFunc(l.claims.locked, Held.hidesNone)
	}
	l.coverAll(ctx)
	_ = l.Close()
}

// lostInBatch takes the jobs behind the head of a group off the hold, if the head's last worker has died with it: it
// runs alone then.
func (l *Lane) lostInBatch(ctx context.Context, hold *Hold) error {
	if hold == nil || len(hold.Rest) == 0 || hold.Rest[0].Key != hold.Key || !hold.perhapsLost() {
		return nil
	}
	lost, err := l.dead(ctx, hold)
	switch {
	case err != nil:
	case len(lost) > 0:
		hold.Rest, hold.More = nil, true
	default:
		hold.jobXID = 0 // nobody needs to ask again
	}
	return err
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
	if err = p.exchange(); err != nil { // the claim has come to nothing
		l.rollback(ctx)
		l.cover(ctx, err)
		_ = l.Close()
	}
	return append(lost, asked[p.read:]...), err // of these it is not known
}

// ErrUnsettled is returned when a session could not settle what its handler has done, and nothing is wrong with that:
// the lane's statements were taken away unseen, or a late cancel request met the settling. All is undone, and the jobs
// may run again, on another session.
var ErrUnsettled = errors.New("lease: the session could not settle its job, which has not failed")

// unsettled makes an error of settling ErrUnsettled if it is one. cancelled says that a statement of the step may have
// been cancelled. A function, or DO, can take statements away without anybody seeing it. After the first time, the
// Dialer's lanes prepare them again after each handler that has had the transaction, so the job that did it is
// completed when it runs again.
func (l *Lane) unsettled(err error, cancelled bool) error {
	switch code := sqlState(err); {
	case code == statementCancelled && (cancelled || l.stream.late.Load()):
	case code == noSuchStatement && l.loan.used() && !l.loan.prepared:
		l.wary.Store(true)
	default:
		return err
	}
	l.stream.spoiled.Store(true)
	return fmt.Errorf("%w: %w", ErrUnsettled, err)
}
