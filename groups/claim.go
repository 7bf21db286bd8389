package groups

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// The claim's part of a lane's step: what is sent for a turn, and what comes back.

// sendClaim adds the claim of a turn to the pipeline.
func (l *Lane) sendClaim(pipeline *pgconn.Pipeline, next *Turn) {
	l.distrust(next)
	for _, turn := range next.With {
		l.distrust(turn)
	}
	if len(next.With) > 0 {
		pipeline.SendQueryStatement(l.stmts[stmtMany], next.claimManyArgs(), nil, claimFormats)
		return
	}
	pipeline.SendQueryStatement(l.stmts[next.claimStmt()], next.claimArgs(), nil, claimFormats)
	if next.ask != nil {
		next.asked = time.Now()
		pipeline.SendQueryStatement(l.stmts[stmtPaused], [][]byte{[]byte(next.Queue)}, nil, claimFormats)
	}
}

// distrust takes a floor away that is not for this lane: see floors.
func (l *Lane) distrust(turn *Turn) {
	if turn.floor.learned < l.dialed {
		turn.floor = floor{}
	}
}

// readClaim reads the answers to sendClaim.
func (l *Lane) readClaim(pipeline *pgconn.Pipeline, next *Turn) (hold *Hold, err error) {
	if len(next.With) > 0 {
		return readMany(pipeline, next)
	}
	if next.Jobs > 1 {
		hold, err = readBatch(pipeline, next)
	} else {
		hold, err = readHead(pipeline, next)
	}
	if err == nil && next.ask != nil {
		paused := false
		if err = eachRow(pipeline, func(r *rowReader) { paused = r.bool() }); err == nil {
			next.ask.saw(next.Queue, paused, next.asked)
		}
	}
	return hold, err
}

// readHead reads the answer of claim.sql.
func readHead(pipeline *pgconn.Pipeline, next *Turn) (hold *Hold, err error) {
	ahead := 0
	err = eachRow(pipeline, func(r *rowReader) {
		hold = &Hold{Held: Held{Key: next.Key, Turn: next}}
		hold.scan(r)
		s := r.snapshot()
		hold.judge(&s)
		next.Alone = false
		if next.known {
			ahead = next.ahead - 1
			return
		}
		hold.Paused = r.bool()
		ahead = int(r.int64()) - 1
	})
	next.ahead = ahead
	if hold != nil {
		hold.More = ahead > 0
		hold.doubt()
	}
	return hold, err
}

// readBatch reads the answer of claim_batch.sql. The jobs up to the first that is to run alone join the hold.
func readBatch(pipeline *pgconn.Pipeline, next *Turn) (*Hold, error) {
	list := make([]Held, 0, next.Jobs+1)
	claimed := false
	err := eachRow(pipeline, func(r *rowReader) {
		list = append(list, Held{Key: next.Key, Turn: next})
		h := &list[len(list)-1]
		h.scanJob(r)
		h.scanDue(r)
		h.scanPlace(r)
		if xid := r.uint32(); r.noMore() {
			h.touched = xid != 0 && int32(xid-uint32(next.oldest)) >= 0
			return
		}
		claimed = len(list) == 1
		h.scanClaim(r)
		s := r.snapshot()
		h.judge(&s)
		h.Paused = !next.known && r.bool()
	})
	next.Alone = false
	if err != nil || !claimed {
		next.ahead = 0
		return nil, err
	}
	hold, rest := &Hold{Held: list[0]}, list[1:]
	hold.More, next.ahead = len(rest) > 0, len(rest)
	if hold.doubt() || hold.alone() || hold.lastXID != 0 || hold.ID <= next.single {
		return hold, nil
	}
	n := slices.IndexFunc(rest, func(h Held) bool { return h.touched || h.alone() })
	if n < 0 {
		n = len(rest)
	}
	n = min(n, next.Jobs-1)
	next.ahead = len(rest) - n // behind the last of them
	for i := range n {
		rest[i].More = i < n-1 || next.ahead > 0
	}
	hold.Rest = rest[:n]
	return hold, nil
}

// readMany reads the answer of claim_many.sql.
func readMany(pipeline *pgconn.Pipeline, next *Turn) (*Hold, error) {
	turns := append([]*Turn{next}, next.With...)
	heads := make([]Held, 0, len(turns))
	var s *snapshot
	err := eachRow(pipeline, func(r *rowReader) {
		n := int(r.uint32()) - 1
		if n < 0 || n >= len(turns) || turns[n] == nil {
			r.fail("for group %d of %d", n+1, len(turns))
			return
		}
		heads = append(heads, Held{Key: turns[n].Key, Turn: turns[n]})
		h := &heads[len(heads)-1]
		h.scan(r)
		if n == 0 {
			s = r.snapshot().keep()
		} else {
			_ = r.column(0, true) // it is the same
		}
		h.Paused, h.More = r.bool(), r.bool()
		turns[n] = nil
	})
	if err != nil || len(heads) == 0 {
		return nil, err
	}
	for i := range heads {
		if s != nil { // else one was missed, and all are claimed again anyway
			heads[i].judge(s)
		}
	}
	// One that is to run alone has its turn by itself, with the next claim.
	company := heads
	if len(turns) > 1 {
		company = slices.DeleteFunc(slices.Clone(heads), func(h Held) bool { return h.alone() })
	}
	if len(company) == 0 { // all of them: the first goes now
		company = heads[:1]
	}
	for i := range heads {
		h := &heads[i]
		h.Turn.Alone = len(heads) > 1 && h.alone()
	}
	hold := &Hold{Held: company[0], Rest: company[1:]}
	if len(company) < len(turns) || slices.ContainsFunc(heads, func(h Held) bool { return h.stale }) {
		hold.unsure, hold.claimed = true, heads
	}
	return hold, nil
}

// doubt has the claim of one group made again if somebody else may have had the group between its snapshot and its lock.
func (h *Hold) doubt() bool {
	if h.stale {
		h.unsure, h.claimed = true, []Held{h.Held}
	}
	return h.stale
}

// keepEvidence reports whether a claim that is to be given up holds a job whose worker has died. The hold is of everything
// then that was claimed.
func (l *Lane) keepEvidence(ctx context.Context, hold *Hold) (bool, error) {
	all := Hold{Held: hold.claimed[0], Rest: hold.claimed[1:]}
	lost, err := l.dead(ctx, &all)
	if err != nil || len(lost) == 0 {
		return false, err
	}
	hold.Held, hold.Rest, hold.unsure = all.Held, all.Rest, false
	return true, nil
}

// claimAgain gives up a claim that is unsure, and claims those groups again that it got: no group stays locked that is not
// worked.
func (l *Lane) claimAgain(ctx context.Context, had *Hold) (*Hold, error) {
	next := had.Turn
	next.With, next.Jobs, next.known, next.ask = nil, 0, false, nil
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

// claimStmt returns the name of the statement that claims the group.
func (t *Turn) claimStmt() string {
	switch {
	case t.Jobs > 1 && t.known:
		return stmtBatchKnown
	case t.Jobs > 1:
		return stmtBatch
	case t.known:
		return stmtKnown
	}
	return stmtClaim
}

// claimArgs returns the parameters of claim.sql and claim_batch.sql.
func (t *Turn) claimArgs() [][]byte {
	args := [][]byte{[]byte(t.Queue), []byte(t.GroupID), appendInt(t.floor.id)}
	if t.Jobs > 1 { // one more, to know whether there is more
		args = append(args, appendInt(int64(t.Jobs)+1))
	}
	return args
}

// claimManyArgs returns the parameters of claim_many.sql.
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
