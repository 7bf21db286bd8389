package lease

import (
	"context"
	"iter"
	"slices"

	"github.com/pgfifo/pgfifo/internal/array"
)

// The claim's part of a lane's step: what is sent for a request, and what comes back. It is two statements, one behind
// the other: the first locks groups, the second looks at their jobs.

// maxBatchBytes is how much the payloads of a batch may have together: it is in memory twice, for each lane.
const maxBatchBytes = 16 << 20

// sendClaim adds a claim to the pipeline. Call claimed when the answers are read: it returns what the claim holds, or
// nil.
func (l *Lane) sendClaim(p *pipeline, next *Request) (claimed func() *Hold) {
	l.missed = NoHead
	if next.Slot {
		l.missed = OverLimit // until a row says that there is a slot
	}
	switch {
	case next.GroupSlot:
		return l.sendGroupSlot(p, next)
	case len(next.With) > 0:
		return l.sendMany(p, next)
	}
	c := &l.claim
	*c = claim{lane: l, next: next, ahead: next.Ahead}
	lock, look, args := stmtLock, stmtClaim, l.claimArgs(next)
	switch {
	case next.Jobs > 1:
		look = stmtClaimBatch
		args = append(args, appendInt(int64(next.Jobs)), appendInt(maxBatchBytes))
	case next.counts():
		p.send(stmtAhead, args, c.readAhead)
	}
	locked := args[:2]
	if next.Slot {
		lock, look, locked = stmtLockSlot, slotLooks[look], l.claimManyArgs(next)[:2]
	}
	p.send(lock, locked, c.readLock)
	p.send(look, args, c.readJob)
	return c.claimed
}

// A claim is what the answers tell of the claim of one group.
type claim struct {
	lane     *Lane
	next     *Request
	ahead    int
	groupXID uint32
	locked   bool
	hold     *Hold
}

func (c *claim) readAhead(r *rowReader) { c.ahead = int(r.int64()) }

func (c *claim) readLock(r *rowReader) {
	if c.next.Slot {
		r.uint32() // the group's number
		c.lane.missed = NoHead
	}
	c.groupXID, c.locked = r.optional()
}

func (c *claim) readJob(r *rowReader) {
	h := Held{Key: c.next.Key, N: c.next.N}
	h.scan(r, c.groupXID)
	if c.hold == nil {
		c.hold = &Hold{Held: h}
	} else {
		c.hold.Rest = append(c.hold.Rest, h)
	}
}

func (c *claim) claimed() *Hold {
	hold := c.hold
	if hold == nil || !c.locked { // a session has the group
		return nil
	}
	hold.batch(hold.Rest)
	if c.next.Jobs <= 1 {
		hold.Seen.Ahead = max(c.ahead-1, 0)
		hold.More = hold.Seen.Ahead > 0
	}
	return hold
}

// batch adds the jobs behind the head of a group, up to the first that is to run alone, and says whether there is more.
func (hold *Hold) batch(rest []Held) {
	hold.More, hold.Rest = len(rest) > 0, nil
	if hold.runsAlone() || hold.marked {
		return
	}
	n := slices.IndexFunc(rest, func(h Held) bool { return h.Payload == nil || h.runsAlone() || h.marked })
	if n < 0 {
		n = len(rest)
	}
	for i := range n {
		rest[i].More = i < len(rest)-1
	}
	hold.Rest = rest[:n]
}

// sendMany is sendClaim for several groups.
func (l *Lane) sendMany(p *pipeline, next *Request) (claimed func() *Hold) {
	lock, look, args := stmtLockMany, stmtClaimMany, l.claimManyArgs(next)
	if next.Slot {
		lock, look = stmtLockSlot, stmtClaimManySlot
	}
	asked := next.all()
	groupXIDs, locked := make([]uint32, len(asked)), 0
	p.send(lock, args[:2], nth(len(asked), func(r *rowReader, n int) {
		l.missed = NoHead
		if xid, ok := r.optional(); ok {
			groupXIDs[n] = xid
			locked++
		}
	}))
	heads := make([]Held, 0, len(asked))
	p.send(look, args, nth(len(asked), func(r *rowReader, n int) {
		heads = append(heads, Held{Key: asked[n].Key, N: asked[n].N})
		h := &heads[len(heads)-1]
		h.scan(r, groupXIDs[n])
		h.More = r.bool()
	}))
	return func() *Hold {
		if len(heads) == 0 {
			return nil
		}
		return company(heads, locked)
	}
}

// company makes a hold of several heads. Those that may run together are claimed again if any others are locked: one
// that is to run alone, or whose payload is too much beside the others', has its turn by itself, with the next claim.
func company(heads []Held, locked int) *Hold {
	for i := range heads {
		heads[i].Seen.Alone = len(heads) > 1 && (heads[i].runsAlone() || heads[i].Payload == nil)
	}
	if !slices.ContainsFunc(heads, func(h Held) bool { return !h.Seen.Alone }) { // the first goes now
		heads[0].Seen.Alone = false
	}
	together := slices.DeleteFunc(slices.Clone(heads), func(h Held) bool { return h.Seen.Alone })
	hold := &Hold{Held: together[0], Rest: together[1:]}
	if len(together) < locked {
		hold.claimed = heads
	}
	return hold
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
		_ = l.Close()
	case len(lost) > 0:
		hold.Rest, hold.More = nil, true
	default:
		hold.jobXID = 0 // nobody needs to ask again
	}
	return err
}

// keepEvidence reports whether a claim that is to be given up holds a job whose worker has died. The hold is of
// everything then that was claimed.
func (l *Lane) keepEvidence(ctx context.Context, hold *Hold) (bool, error) {
	all := Hold{Held: hold.claimed[0], Rest: hold.claimed[1:]}
	lost, err := l.dead(ctx, &all)
	if err != nil || len(lost) == 0 {
		return false, err
	}
	hold.Held, hold.Rest = all.Held, all.Rest
	return true, nil
}

// claimAgain gives a claim of many groups up and makes it again, for those that may be worked together: no group stays
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

// Heads returns the heads of the held groups: of one group, the first job. A nil Hold has none.
func (h *Hold) Heads() iter.Seq[*Held] {
	return func(yield func(*Held) bool) {
		if h == nil || !yield(&h.Held) {
			return
		}
		for i := range h.Rest {
			if h.Rest[i].Key != h.Key && !yield(&h.Rest[i]) {
				return
			}
		}
	}
}

// claimArgs returns the parameters of lock.sql and claim.sql.
func (l *Lane) claimArgs(r *Request) [][]byte {
	return append(make([][]byte, 0, 5), []byte(r.Queue), []byte(r.GroupID), appendInt(r.floor(l.dialed)))
}

// claimManyArgs returns the parameters of lock_many.sql and claim_many.sql.
func (l *Lane) claimManyArgs(r *Request) [][]byte {
	all := r.all()
	ids := array.Texts(all, func(one Request) string { return one.GroupID })
	floors := array.Ints(all, func(one Request) int64 { return one.floor(l.dialed) })
	return [][]byte{[]byte(r.Queue), ids, floors, appendInt(maxBatchBytes)}
}
