package schedule

import (
	"math"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A book has what Turns know of groups and lanes. It moves each group from one place to another: in line, with a lane,
// due later, held elsewhere, or out of the book. Its methods are called with the lock of the Turns.
type book struct {
	known     map[groups.Key]*Turn // every group in the line, with a lane, due later or held elsewhere
	line      line                 // ready, in order
	parked    parked               // due later
	watched   watched              // held elsewhere
	waiting   []chan *Turn         // lanes without work, last in first out: the rest may go on sleeping
	lanes     lanes
	teams     map[groups.Key]*team // see team.go
	floors    floors
	rooms     rooms
	batches   map[string]Batch // of queues that have any
	suspects  *Suspects
	suspected map[*Turn]bool // groups that wait for the end of another suspect
	poll      time.Duration
	worked    bool // a job was worked since the last View
	wake      bell // rings when the scout is to see at once what has changed
}

// take gives the next turn to a lane, or returns nil.
func (b *book) take() *Turn {
	turn := b.line.pop(b.lanes.may)
	for turn != nil && !b.allow(turn) {
		turn = b.line.pop(b.lanes.may)
	}
	if turn == nil {
		return nil
	}
	b.begin(turn)
	groups := b.batches[turn.Queue].Groups
	if groups > 1 && !turn.noCompany && !turn.groupSlot && !b.line.row(turn.Queue).probe.open {
		b.gather(turn, groups)
	}
	b.line.pay(turn)
	if turn.row.overflowed && b.rooms.low(turn.row, turn.Queue) {
		b.wake.ring() // there may be more than it could hold
	}
	return turn
}

// allow reports whether a lane may have the turn. Else it waits.
func (b *book) allow(turn *Turn) bool {
	if !turn.suspect {
		return true
	}
	wait := b.suspects.enter(turn)
	if wait <= 0 {
		return true
	}
	b.park(turn, time.Now().Add(wait))
	if b.known[turn.Key] == turn {
		b.suspected[turn] = true
	}
	return false
}

// begin gives a turn to a lane.
func (b *book) begin(turn *Turn) {
	b.lanes.begin(turn.Queue)
	b.prepareClaim(turn)
	if b.lanes.probes.take(turn) {
		b.parked.earlier.ring()
	}
}

// prepareClaim gives the turn to a lane: it forgets what was for the last claim, and says what this one may take.
func (b *book) prepareClaim(turn *Turn) {
	queue := b.line.row(turn.Queue)
	turn.state, turn.lowest, turn.putBack = withLane, math.MaxInt64, math.MaxInt64
	turn.floor, turn.safe = b.floors.of(turn.Key).floor, b.floors.safe
	turn.finished, turn.fresh, turn.orphan, turn.resting = 0, false, false, false
	turn.trouble.forget()
	turn.allowed = turn.suspect || b.suspects == nil
	turn.with, turn.jobs, turn.slot = nil, b.batches[turn.Queue].Jobs, queue.slots.limited
	turn.groupSlot, turn.full = queue.slots.groupLimit > 0, false
	if turn.groupSlot {
		turn.floor, turn.jobs = floor{}, 1 // what is done tells nothing of lower ids
	}
	if turn.single > 0 || queue.probe.open {
		turn.jobs = 1
	}
}

// gather gives a turn the next ones in line of the same queue for company, up to the given number in all, and no more
// than its part if other lanes have nothing to do.
func (b *book) gather(turn *Turn, groups int) {
	lanes := 1
	queue := b.line.row(turn.Queue)
	if b.lanes.may(queue) {
		lanes += len(b.waiting)
	}
	even := (queue.len() + lanes) / lanes
	for range min(groups, even) - 1 {
		next := b.line.company(turn.Queue)
		if next == nil {
			return
		}
		b.prepareClaim(next)
		turn.with = append(turn.with, next)
	}
}

// dispatch gives waiting lanes what they were not allowed to take before.
func (b *book) dispatch() {
	for len(b.waiting) > 0 && b.line.n > 0 {
		turn := b.take()
		if turn == nil {
			return
		}
		b.hand(turn)
	}
}

// hand hands a turn that was taken to the lane that waits for the shortest time.
func (b *book) hand(turn *Turn) {
	last := len(b.waiting) - 1
	b.waiting[last] <- turn // buffered
	b.waiting = b.waiting[:last]
}

// put hands the group to a waiting lane, or puts it at the end of the line.
func (b *book) put(turn *Turn) {
	turn.full = false
	if other := b.known[turn.Key]; turn.groupSlot && other != nil && other != turn {
		b.unlink(other)
	}
	b.known[turn.Key] = turn
	if len(b.waiting) > 0 && b.lanes.may(b.line.row(turn.Queue)) {
		if b.allow(turn) {
			b.begin(turn)
			b.line.pay(turn)
			b.hand(turn)
		}
		return
	}
	turn.state = inLine
	b.line.push(turn)
}

// park makes a group wait until then, if there is room for it.
func (b *book) park(turn *Turn, at time.Time) {
	if b.parked.add(turn, at) {
		b.known[turn.Key] = turn
	} else {
		delete(b.known, turn.Key)
	}
}

// watch adds a group to those that are watched; holder is the transaction or the session that holds it, or 0.
func (b *book) watch(turn *Turn, holder int64) {
	b.watched.add(turn, holder)
	b.known[turn.Key] = turn
}

// unlink takes a parked or watched turn out of where it waits.
func (b *book) unlink(turn *Turn) {
	switch turn.state {
	case dueLater:
		b.parked.remove(turn)
		delete(b.suspected, turn)
	case heldElsewhere:
		delete(b.watched.turns, turn)
		b.line.row(turn.Queue).slots.looked(turn)
	}
}

// due puts the groups in line whose time has come, and returns how long it is until the next one, or probe, or -1.
func (b *book) due() time.Duration {
	few := 0
	for turn := range b.suspected {
		if few == tuning.Few || !b.suspects.free() {
			break
		}
		few++
		b.unlink(turn)
		b.put(turn)
	}
	next := b.lanes.probes.next()
	if b.lanes.probes.open > 0 {
		b.dispatch()
	}
	for b.parked.heap.Len() > 0 {
		turn := b.parked.heap[0]
		if wait := time.Until(turn.at); wait > 0 {
			if next < 0 || wait < next {
				next = wait
			}
			break
		}
		b.unlink(turn)
		b.put(turn)
	}
	return next
}

// announce notes that there is a new job in a group; id is the lowest one's, or 0 if that is not known.
func (b *book) announce(key groups.Key, share string, id int64) {
	turn := b.known[key]
	switch {
	case b.announceToTeam(turn, key, id):
	case turn == nil:
		if part := b.rooms.part(key.Queue, share); b.rooms.left(key.Queue, part, nil) <= 0 {
			b.rooms.refuse(key.Queue, part, "")
			return
		}
		turn = b.watched.found(key, share)
		turn.head, turn.hinted = id, true
		b.put(turn)
	case turn.state == withLane:
		turn.again = true
	case turn.leftAlone():
		b.parked.move(turn, turn.trouble.hurry(turn.at))
	case turn.state == dueLater && id < turn.head:
		turn.suspect = false
		b.unlink(turn)
		b.put(turn)
	}
}

// offer notes what discovery has found, and reports whether it is news. It adds to reranked the rows in which a
// priority has changed.
func (b *book) offer(c Candidate, reranked map[*row]bool) (news bool) {
	b.floors.found(c.Key, c.ID)
	if c.Paused {
		return false
	}
	b.line.row(c.Queue).slots.set(c.Slot, c.GroupLimit)
	turn := b.known[c.Key]
	switch {
	case c.GroupLimit > 0 && (c.Holder != 0 || b.full(turn, c)):
		b.offerRunning(turn, c)
		return false
	case turn != nil && turn.full: // it was tried just now
		return false
	case turn == nil:
		turn = b.watched.found(c.Key, c.share)
	case turn.claimable():
		turn.lowest = min(turn.lowest, c.ID)
		if turn.rerank(c, b.floors.looks) {
			reranked[turn.row] = true
		}
		return false
	case turn.leftAlone(), (c.DueIn > 0 || turn.suspect) && turn.parked(c.ID, c.DueIn):
		return false
	case turn.state == heldElsewhere && c.Holder == 0 && turn.misses.leftAlone(c.ID):
		return false
	default:
		b.unlink(turn)
	}
	turn.head, turn.spent, turn.priority, turn.suspect = c.ID, 0, c.Priority, false
	switch {
	case c.Holder != 0:
		turn.misses = misses{}
		b.watch(turn, c.Holder)
	case c.DueIn > 0:
		b.park(turn, time.Now().Add(c.DueIn))
	default:
		turn.fresh, turn.orphan = !b.line.row(turn.Queue).started, c.Orphan
		b.put(turn)
		return true
	}
	return false
}

// learn notes what a claim has told of the group. A job that is finished becomes a floor in time, unless that would
// hide one that has appeared since the claim.
func (b *book) learn(turn *Turn, o Outcome) {
	turn.noCompany, turn.suspect, turn.ahead = o.NoCompany, o.Untried, o.Seen.Ahead
	if !o.Missed {
		turn.priority, turn.misses = o.Priority, misses{}
	}
	if o.OneByOne > 0 {
		turn.single = o.OneByOne
	}
	if id := o.Finished; id > 0 {
		b.worked, turn.unavailable = true, 0
		if id >= turn.single {
			turn.single = 0
		}
		if !turn.groupSlot && id <= turn.lowest && id > turn.finished { // with slots it tells nothing of lower ids
			b.floors.raise(turn, o.Seen, id)
		}
	}
	if o.Unavailable {
		turn.unavailable++
	}
}

// done is Turns.Done.
func (b *book) done(turn *Turn, o Outcome) {
	if b.lanes.probes.landed(turn) {
		defer b.dispatch()
	}
	defer turn.paid()()
	if turn.suspect || !o.Missed { // else its job is lost again
		b.suspects.leave(turn)
	}
	r := b.rooms.part(turn.Queue, turn.share)
	again, hinted := turn.again, turn.hinted
	turn.again, turn.hinted, turn.given = false, false, b.floors.looks
	if turn.groupSlot && b.leaveTeam(turn, &o, &again) {
		return
	}
	if o.Over {
		if turn.hinted = hinted; b.line.row(turn.Queue).slots.ask(turn) {
			b.watch(turn, 0)
		} else {
			b.put(turn)
		}
		return
	}
	b.learn(turn, o)
	if o.Paused {
		b.line.row(turn.Queue).paused = true
	}
	if o.Finished <= 0 {
		// Nothing was finished. So the floor may be wrong: Again may have raised it for a job that was not completed,
		// or a lower id came late.
		b.floors.drop(turn.Key)
	} else {
		turn.trouble.n = 0
	}
	switch {
	case o.Trouble:
		turn.resting = true
		b.park(turn, turn.trouble.meet(again))
	case o.Missed && turn.floor.id > 0: // one look without it
		b.put(turn)
	case o.Missed:
		// Held elsewhere, or without jobs, or without a row if it was only announced: the scout looks.
		turn.misses.add(turn.head)
		turn.hinted = hinted
		b.watch(turn, 0)
		if hinted {
			b.wake.ring()
		}
	case o.DueIn > 0:
		b.park(turn, time.Now().Add(o.DueIn))
	case again, o.More &&
		(!r.overflowed || r.len() == 0 || turn.spent+1 < quantum || turn.noCompany || turn.single > o.Finished):
		turn.spent++
		b.put(turn) // in a full line, too, if it is to run by itself: found anew, that would not be known any more
	default:
		// Nothing known behind it, or more groups than the line holds: the next walk finds it in its turn.
		r.dropped = r.dropped || o.More
		delete(b.known, turn.Key)
	}
}
