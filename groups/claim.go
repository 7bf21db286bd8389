package groups

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The claim's part of a lane's step: what is sent for a turn, and what comes back. It is two statements, one behind the
// other: the first locks groups, the second looks at their jobs.

// maxBatchBytes is how much the payloads of a batch may have together: it is in memory twice, for each lane.
const maxBatchBytes = 16 << 20

// sendClaim adds the claim of a turn to the pipeline.
func (l *Lane) sendClaim(pipeline *pgconn.Pipeline, next *Turn) {
	l.distrust(next)
	for _, turn := range next.With {
		l.distrust(turn)
	}
	lock, look, args := stmtLock, stmtClaim, next.claimArgs()
	switch {
	case len(next.With) > 0:
		lock, look, args = stmtLockMany, stmtClaimMany, next.claimManyArgs()
	case next.Jobs > 1:
		look = stmtClaimBatch
		args = append(args, appendInt(int64(next.Jobs)), appendInt(maxBatchBytes))
	case next.counts():
		pipeline.SendQueryStatement(l.stmts[stmtAhead], args, nil, claimFormats)
	}
	pipeline.SendQueryStatement(l.stmts[lock], args[:2], nil, claimFormats)
	pipeline.SendQueryStatement(l.stmts[look], args, nil, claimFormats)
}

// distrust takes a floor away that is not for this lane: see floors.
func (l *Lane) distrust(turn *Turn) {
	if turn.floor.learned < l.dialed {
		turn.floor = floor{}
	}
}

// readClaim reads the answers to sendClaim.
func (l *Lane) readClaim(pipeline *pgconn.Pipeline, next *Turn) (*Hold, error) {
	if len(next.With) > 0 {
		return readMany(pipeline, next)
	}
	if next.counts() {
		err := eachRow(pipeline, func(r *rowReader) { next.ahead = int(r.int64()) })
		if err != nil {
			return nil, err
		}
	}
	groupXID := uint32(0)
	if err := eachRow(pipeline, func(r *rowReader) { groupXID = r.uint32() }); err != nil {
		return nil, err
	}
	if next.Jobs > 1 {
		return readBatch(pipeline, next, groupXID)
	}
	return readHead(pipeline, next, groupXID)
}

// readHead reads the answer of claim.sql.
func readHead(pipeline *pgconn.Pipeline, next *Turn, groupXID uint32) (hold *Hold, err error) {
	err = eachRow(pipeline, func(r *rowReader) {
		hold = &Hold{Held: Held{Key: next.Key, Turn: next}}
		hold.scan(r, groupXID)
	})
	next.Alone = false
	if hold == nil {
		next.ahead = 0
		return nil, err
	}
	next.ahead = max(next.ahead-1, 0)
	hold.More = next.ahead > 0
	return hold, err
}

// counts reports whether the claim of one job counts those behind it, too.
func (t *Turn) counts() bool { return t.Jobs <= 1 && t.ahead <= 1 }

// readBatch reads the answer of claim_batch.sql. The jobs up to the first that is to run alone join the hold.
func readBatch(pipeline *pgconn.Pipeline, next *Turn, groupXID uint32) (*Hold, error) {
	list := make([]Held, 0, next.Jobs+1)
	err := eachRow(pipeline, func(r *rowReader) {
		list = append(list, Held{Key: next.Key, Turn: next})
		list[len(list)-1].scan(r, groupXID)
	})
	next.Alone = false
	if err != nil || len(list) == 0 {
		return nil, err
	}
	hold, rest := &Hold{Held: list[0]}, list[1:]
	hold.More, next.ahead = len(rest) > 0, 0
	if hold.alone() || hold.lastXID != 0 || hold.marked {
		return hold, nil
	}
	n := slices.IndexFunc(rest, func(h Held) bool { return h.Payload == nil || h.alone() })
	if n < 0 {
		n = len(rest)
	}
	for i := range n {
		rest[i].More = i < len(rest)-1
	}
	hold.Rest = rest[:n]
	return hold, nil
}

// readMany reads the answers of lock_many.sql and claim_many.sql.
func readMany(pipeline *pgconn.Pipeline, next *Turn) (*Hold, error) {
	turns := append([]*Turn{next}, next.With...)
	groupXIDs := make([]uint32, len(turns))
	locked := 0
	place := func(r *rowReader) int {
		n := int(r.uint32()) - 1
		if n < 0 || n >= len(turns) || turns[n] == nil {
			r.fail("for group %d of %d", n+1, len(turns))
			return -1
		}
		return n
	}
	err := eachRow(pipeline, func(r *rowReader) {
		if n := place(r); n >= 0 {
			groupXIDs[n] = r.uint32()
			locked++
		}
	})
	if err != nil {
		return nil, err
	}
	heads := make([]Held, 0, locked)
	err = eachRow(pipeline, func(r *rowReader) {
		n := place(r)
		if n < 0 {
			return
		}
		heads = append(heads, Held{Key: turns[n].Key, Turn: turns[n]})
		h := &heads[len(heads)-1]
		h.scan(r, groupXIDs[n])
		h.More = r.bool()
		h.Turn.ahead = 0
		turns[n] = nil
	})
	if err != nil || len(heads) == 0 {
		return nil, err
	}
	return company(heads, locked), nil
}

// company makes a hold of several heads. Those that may run together are claimed again if any others are locked: one
// that is to run alone has its turn by itself, with the next claim.
func company(heads []Held, locked int) *Hold {
	together := slices.DeleteFunc(slices.Clone(heads), func(h Held) bool { return len(heads) > 1 && h.alone() })
	if len(together) == 0 { // all of them are to run alone: the first goes now
		together = slices.Clone(heads[:1])
	}
	for i := range heads {
		h := &heads[i]
		h.Turn.Alone = len(heads) > 1 && h.alone()
	}
	together[0].Turn.Alone = false
	hold := &Hold{Held: together[0], Rest: together[1:]}
	if hold.unsure = len(together) < locked; hold.unsure {
		hold.claimed = heads
	}
	return hold
}

// keepEvidence reports whether a claim that is to be given up holds a job whose worker has died. The hold is of
// everything then that was claimed.
func (l *Lane) keepEvidence(ctx context.Context, hold *Hold) (bool, error) {
	all := Hold{Held: hold.claimed[0], Rest: hold.claimed[1:]}
	lost, err := l.dead(ctx, &all)
	if err != nil || len(lost) == 0 {
		return false, err
	}
	hold.Held, hold.Rest, hold.unsure = all.Held, all.Rest, false
	return true, nil
}

// claimAgain gives a claim of many groups up and makes it again, for those that may be worked together: no group stays
// locked that is not worked.
func (l *Lane) claimAgain(ctx context.Context, had *Hold) (*Hold, error) {
	next := had.Turn
	next.With, next.Jobs = nil, 0
	for i := range had.Rest {
		next.With = append(next.With, had.Rest[i].Turn)
	}
	hold, _, err := l.step(ctx, nil, next)
	return hold, err
}

// heads returns the heads of the held groups: of one group, the first job.
func (h *Hold) heads() iter.Seq[*Held] {
	return func(yield func(*Held) bool) {
		if !yield(&h.Held) {
			return
		}
		for i := range h.Rest {
			if h.Rest[i].Key != h.Key && !yield(&h.Rest[i]) {
				return
			}
		}
	}
}

// eachRow reads one statement's answer.
func eachRow(pipeline *pgconn.Pipeline, row func(*rowReader)) error {
	result, err := readResult(pipeline)
	if err != nil {
		return err
	}
	var r rowReader
	for result.NextRow() {
		r.values, r.next = result.Values(), 0
		row(&r)
		if err := r.end(); err != nil {
			return err
		}
	}
	_, err = result.Close()
	return err
}

func readTag(pipeline *pgconn.Pipeline) (pgconn.CommandTag, error) {
	r, err := readResult(pipeline)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return r.Close()
}

func readResult(pipeline *pgconn.Pipeline) (*pgconn.ResultReader, error) {
	res, err := pipeline.GetResults()
	if err != nil {
		return nil, err
	}
	r, ok := res.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("groups: unexpected answer %T", res)
	}
	return r, nil
}

// claimArgs returns the parameters of lock.sql and claim.sql.
func (t *Turn) claimArgs() [][]byte {
	return append(make([][]byte, 0, 5), []byte(t.Queue), []byte(t.GroupID), appendInt(t.floor.id))
}

// claimManyArgs returns the parameters of lock_many.sql and claim_many.sql.
func (t *Turn) claimManyArgs() [][]byte {
	var ids, floors strings.Builder
	for i, turn := range append([]*Turn{t}, t.With...) {
		sep := byte('{')
		if i > 0 {
			sep = ','
		}
		ids.WriteByte(sep)
		quote(&ids, turn.GroupID)
		floors.WriteByte(sep)
		fmt.Fprintf(&floors, "%d", turn.floor.id)
	}
	ids.WriteByte('}')
	floors.WriteByte('}')
	return [][]byte{[]byte(t.Queue), []byte(ids.String()), []byte(floors.String())}
}

// quote writes an element of an array in text format.
func quote(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i])
	}
	b.WriteByte('"')
}
