package lease

import (
	"iter"
	"slices"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/array"
)

// The claim's part of a lane's step: what is sent for a request, and what comes back. It is two statements, one after
// the other: the first locks groups, the second looks at their jobs.

// maxBatchBytes is how much the payloads of a batch may have together: each lane has its batch in memory twice.
const maxBatchBytes = 16 << 20

// claims has what a lane needs for its claims, which it makes one after the other.
type claims struct {
	dialed int64  // which one of the process's lanes this is
	missed Miss   // why the last one holds nothing, if it does
	claim  claim  // of one group; used again by the next one
	locked []Held // one for each group that it has locked; ID is 0 until it has told of the head: see Lane.cover
	own    uint32 // its transaction, if it has locked any
}

// tell notes what the claim has told of a head.
func (c *claims) tell(of, h *Held) {
	of.ID, of.Attempts, of.jobXID, of.marked = h.ID, h.Attempts, h.jobXID, h.marked
}

// send adds a claim to the pipeline. Call claimed when the answers are read: it returns what the claim holds, or nil.
func (c *claims) send(p *pipeline, next *Request) (claimed func() *Hold) {
	c.missed = NoHead
	if next.Slot {
		c.missed = OverLimit // until a row says that there is a slot
	}
	switch {
	case next.GroupSlot:
		return c.sendGroupSlot(p, next)
	case len(next.With) > 0:
		return c.sendMany(p, next)
	}
	one := &c.claim
	*one = claim{of: c, next: next, ahead: next.Ahead, rows: one.rows[:0]}
	lock, look, args := stmtLock, stmtClaim, c.args(next)
	switch {
	case next.Jobs > 1:
		look = stmtClaimBatch
		args = append(args, appendInt(int64(next.Jobs)), appendInt(maxBatchBytes))
	case next.counts():
		p.send(stmtAhead, args, one.readAhead)
	}
	of := args[:2]
	if next.Slot {
		lock, look, of = stmtLockSlot, slotLooks[look], c.manyArgs(next)[:2]
	}
	p.send(lock, of, one.readLock)
	p.send(look, args, one.readJob)
	return one.claimed
}

// A claim is what the answers tell of the claim of one group.
type claim struct {
	of    *claims
	next  *Request
	ahead int
	rows  []Held // the head, and the jobs behind it; the next claim uses the slice again
}

// forget lets go of the rows: their payloads would stay in memory until the next claim.
func (c *claim) forget() {
	clear(c.rows)
	c.rows = c.rows[:0]
}

func (c *claim) readAhead(r *rowReader) { c.ahead = int(r.int64()) }

func (c *claim) readLock(r *rowReader) {
	if c.next.Slot {
		r.uint32() // the group's number
		c.of.missed = NoHead
	}
	c.of.readXIDs(r, c.next.Key)
}

// readXIDs reads the end of a row about a group: who had locked its row before, and the claim's transaction. It reports
// whether the claim has it locked.
func (c *claims) readXIDs(r *rowReader, of groups.Key) bool {
	before, locked := r.optional()
	c.own = r.uint32()
	if locked {
		c.locked = append(c.locked, Held{Key: of, groupXID: before})
	}
	return locked
}

func (c *claim) readJob(r *rowReader) {
	c.rows = append(c.rows, Held{Key: c.next.Key, N: c.next.N})
	h := &c.rows[len(c.rows)-1]
	switch {
	case len(c.rows) > 1: // see claim_batch.sql
		h.scanJob(r)
		r.nulls(5)
	case len(c.of.locked) == 0: // a session has the group
		h.scan(r, 0)
	default:
		own := &c.of.locked[0]
		h.scan(r, own.groupXID)
		c.of.tell(own, h)
	}
}

func (c *claim) claimed() *Hold {
	if len(c.rows) == 0 || len(c.of.locked) == 0 { // a session has the group
		return nil
	}
	hold := &Hold{Held: c.rows[0]}
	hold.batch(c.rows[1:])
	hold.Rest = slices.Clone(hold.Rest)
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

// sendMany is send for several groups.
func (c *claims) sendMany(p *pipeline, next *Request) (claimed func() *Hold) {
	lock, look, args := stmtLockMany, stmtClaimMany, c.manyArgs(next)
	if next.Slot {
		lock, look = stmtLockSlot, stmtClaimManySlot
	}
	asked := next.all()
	at := make([]int, len(asked)) // the lock of each: the first is number 1
	p.send(lock, args[:2], nth(len(asked), func(r *rowReader, n int) {
		c.missed = NoHead
		if c.readXIDs(r, asked[n].Key) {
			at[n] = len(c.locked)
		}
	}))
	heads := make([]Held, 0, len(asked))
	p.send(look, args, nth(len(asked), func(r *rowReader, n int) {
		heads = append(heads, Held{Key: asked[n].Key, N: asked[n].N})
		h := &heads[len(heads)-1]
		if at[n] == 0 { // see claim_many.sql
			r.fail("of a group that is not locked")
			return
		}
		own := &c.locked[at[n]-1]
		h.scan(r, own.groupXID)
		c.tell(own, h)
		h.More = r.bool()
	}))
	return func() *Hold {
		if len(heads) == 0 {
			return nil
		}
		return company(heads, len(c.locked))
	}
}

// sendGroupSlot is send for a group of which several jobs may run at once (Request.GroupSlot). It is three statements:
// one locks a slot of the group (sql/lock_group_slot.sql), the next the first job that nobody runs (sql/lock_next.sql),
// and the third looks whether that is the right one (sql/claim_group_slot.sql). The job has started when its attempt is
// marked (Lane.Mark): until then no claim passes over it.
func (c *claims) sendGroupSlot(p *pipeline, next *Request) (claimed func() *Hold) {
	var hold *Hold
	args := [][]byte{[]byte(next.Queue), []byte(next.GroupID)}
	p.send(stmtLockGroupSlot, args, func(r *rowReader) {
		c.missed = NoHead
		if r.bool() {
			c.missed = OverLimit
		}
		r.bool() // locked
	})
	p.send(stmtLockNext, args, func(r *rowReader) {
		r.bool()
		c.missed = NextLocked // until the job is claimed
	})
	p.send(stmtClaimGroupSlot, args, func(r *rowReader) {
		hold = &Hold{Held: Held{Key: next.Key, N: next.N, GroupSlot: true}}
		hold.scan(r, 0)
		hold.More = r.bool()
		c.missed = NoHead
	})
	return func() *Hold { return hold }
}

// company makes a hold of several heads. If others are locked, too, those that may run together are claimed again. A
// head that is to run alone, or whose payload is too much beside others, has its turn by itself, with the next claim.
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

// args returns the parameters of lock.sql and claim.sql.
func (c *claims) args(r *Request) [][]byte {
	return append(make([][]byte, 0, 5), []byte(r.Queue), []byte(r.GroupID), appendInt(r.floor(c.dialed)))
}

// manyArgs returns the parameters of lock_many.sql and claim_many.sql.
func (c *claims) manyArgs(r *Request) [][]byte {
	all := r.all()
	ids := array.Texts(all, func(one Request) string { return one.GroupID })
	floors := array.Ints(all, func(one Request) int64 { return one.floor(c.dialed) })
	return [][]byte{[]byte(r.Queue), ids, floors, appendInt(maxBatchBytes)}
}
