package lease

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// take begins a transaction in which the lane holds what a session has claimed: from then on it is as if the lane had
// claimed it. It returns ErrNotHeld if some of that is not the claim's any more; then the lane holds nothing. It waits
// for whoever has a row locked; if it is bounded, a second for each, and then its error is lockNotAvailable.
func (l *Lane) take(ctx context.Context, hold *Hold, loan *Loan, bounded bool) error {
	l.loan = nil // that of the job before
	heads := keptHeads(hold)
	var queues, ids, tokens, jobs array
	for _, h := range heads {
		queues.string(h.Queue)
		ids.string(h.GroupID)
		tokens.int(h.token)
		jobs.int(h.ID)
	}
	keys := [][]byte{queues.bytes(), ids.bytes()}
	pipeline := l.pg().StartPipeline(ctx)
	begun := l.begin(pipeline)
	if bounded {
		l.send(pipeline, stmtWaitBehind, nil, nil)
		begun++
	}
	l.send(pipeline, stmtTake, append(keys[:2:2], tokens.bytes()), nil)
	l.send(pipeline, stmtTakeJobs, append(keys[:2:2], jobs.bytes(), tokens.bytes()), claimFormats)
	if bounded {
		l.send(pipeline, stmtWaitLong, nil, nil)
	}
	err := pipeline.Sync()
	taken := 0
	if err == nil {
		taken, err = readTake(pipeline, begun, heads)
	}
	if err == nil && bounded {
		_, err = readTag(pipeline)
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	if err == nil && taken < len(heads) {
		err = ErrNotHeld
	}
	if err != nil {
		l.rollback(ctx)
		return fmt.Errorf("lease: take: %w", err)
	}
	l.hold = &Hold{Held: hold.Held, Rest: hold.Rest, lane: l} // as if it had claimed them
	l.hold.Seen.XID = heads[0].Seen.XID
	l.loan, l.inTx = loan, true
	loan.lane = l
	return nil
}

// keptHeads returns the heads of the groups that a session has and has not let go.
func keptHeads(hold *Hold) (heads []*Held) {
	for h := range hold.Heads() {
		if h.token != 0 {
			heads = append(heads, h)
		}
	}
	return heads
}

// readTake enters in the heads where their rows are, and the transaction.
func readTake(pipeline *pgconn.Pipeline, begun int, heads []*Held) (taken int, err error) {
	for range begun + 1 { // and the groups
		if _, err := readTag(pipeline); err != nil {
			return 0, err
		}
	}
	err = eachRow(pipeline, func(r *rowReader) {
		n := int(r.uint32()) - 1
		if n < 0 || n >= len(heads) {
			r.fail("for group %d of %d", n+1, len(heads))
			return
		}
		if v := r.column(6, false); v != nil {
			heads[n].Place = Place{binary.BigEndian.Uint32(v), binary.BigEndian.Uint16(v[4:])}
		}
		heads[n].Seen.XID = r.int64()
		taken++
	})
	return taken, err
}

// endCall lets the groups go with the transaction that has taken them.
func endCall(heads []*Held) Call {
	var queues, ids, tokens array
	for _, h := range heads {
		queues.string(h.Queue)
		ids.string(h.GroupID)
		tokens.int(h.token)
	}
	return Call{Statement: stmtEnd, Args: [][]byte{queues.bytes(), ids.bytes(), tokens.bytes()}}
}
