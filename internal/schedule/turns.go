package schedule

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Turns keeps the groups that may have a job to run, and hands them to the lanes of a process in turn: queue by queue,
// by the lanes' time that each has used, and a group that was worked goes to the end of its queue. So none starves
// another. All it knows is a hint; the claim decides.
//
// The zero value is not usable; see NewTurns. It is safe for concurrent use.
type Turns struct {
	mu        sync.Mutex
	line      line                 // ready, in order
	known     map[groups.Key]*Turn // every group in the line, with a lane, due later or held elsewhere
	due       dueHeap              // groups whose head is not due yet
	most      int                  // groups that are parked at most
	soon      time.Duration        // half of the room for parked groups is for those that are due within this time
	earlier   bell                 // rings when another group is due first, or when a queue is to be probed
	watched   map[*Turn]bool       // groups that another process holds, or that were missed
	hinted    bool                 // one that was announced was added to them since the last call of Watched
	waiting   []chan *Turn         // lanes without work, last in first out: the rest may go on sleeping
	lanes     lanes
	teams     map[groups.Key]*team // see team.go
	checking  map[groups.Key]*Turn // groups that were watched, and that the scout looks at now
	poll      time.Duration
	suspects  *Suspects
	suspected map[*Turn]bool // parked turns that wait until another suspect has ended
	sick      atomic.Int64   // queues of which some group has said that it is unavailable
	floors    floors
	limit     int                                         // of each queue's row
	refills   int                                         // refills that have been read so far
	scouted   []*row                                      // rows of the scout's queues
	batches   map[string]Batch                            // of queues that have any
	shares    map[string]func(groupIDs []string) []string // of queues that have any
	worked    bool                                        // a job was worked since the last View
	wake      bell                                        // rings when the scout is to look at the Turns
}

type turnState int

const (
	inLine turnState = iota
	withLane
	dueLater
	heldElsewhere
)

// NewTurns returns Turns that keep up to limit groups of each queue in the line. What a look or a walk finds in one
// statement, and what becomes due, may come on top.
func NewTurns(limit int) *Turns {
	now := time.Now()
	t := &Turns{
		line: newLine(), known: make(map[groups.Key]*Turn), watched: make(map[*Turn]bool),
		floors: floors{fresh: make(map[groups.Key]groupFloor), swept: now, born: now, validFor: floorAge, looks: 1},
		limit:  limit, batches: make(map[string]Batch), wake: newBell(),
		teams: make(map[groups.Key]*team), checking: make(map[groups.Key]*Turn),
		shares: make(map[string]func([]string) []string), most: maxParked, earlier: newBell(),
		suspected: make(map[*Turn]bool),
	}
	t.lanes = lanes{line: &t.line, bounds: make(map[string]Lanes), slots: make(map[string]*slots)}
	return t
}

// SetBatch says how much of a queue a claim may take; without it, one job. Not after the first turn was taken.
func (t *Turns) SetBatch(queue string, b Batch) { t.batches[queue] = b }

// Next waits for a group to try. It returns nil when ctx ends.
func (t *Turns) Next(ctx context.Context) *Turn {
	t.mu.Lock()
	if turn := t.take(); turn != nil {
		t.mu.Unlock()
		return turn
	}
	ch := make(chan *Turn, 1)
	t.waiting = append(t.waiting, ch)
	t.mu.Unlock()
	t.Wake()
	select {
	case turn := <-ch:
		return turn
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, ch); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return nil
	}
	turn := <-ch // handed over just now, with its company
	t.suspects.leave(turn)
	t.lanes.end(turn.Queue)
	t.landed(turn)
	for _, back := range append([]*Turn{turn}, turn.with...) {
		end := back.paid()
		t.put(back)
		end()
	}
	return nil
}

// TryNext is Next without waiting: it returns nil if no group is in line that the lane may work.
func (t *Turns) TryNext() *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.take()
}

func (t *Turns) take() *Turn {
	turn := t.line.pop(t.lanes.may)
	for turn != nil && !t.allow(turn) {
		turn = t.line.pop(t.lanes.may)
	}
	if turn == nil {
		return nil
	}
	t.begin(turn)
	groups := t.batches[turn.Queue].Groups
	if groups > 1 && !turn.noCompany && !turn.groupSlot && t.lanes.probed(turn.Queue) == nil {
		t.gather(turn, groups)
	}
	t.pay(turn)
	if turn.row.overflowed && t.low(turn.row, turn.Queue) {
		t.Wake() // there may be more than it could hold
	}
	return turn
}

// gather gives a turn the next ones in line of the same queue for company, up to the given number in all, and no more
// than its part if other lanes have nothing to do.
func (t *Turns) gather(turn *Turn, groups int) {
	lanes := 1
	if t.lanes.may(turn.Queue) {
		lanes += len(t.waiting)
	}
	even := (t.line.row(turn.Queue).len() + lanes) / lanes
	for range min(groups, even) - 1 {
		next := t.line.company(turn.Queue)
		if next == nil {
			return
		}
		t.prepareClaim(next)
		turn.with = append(turn.with, next)
	}
}

// learn enters what a claim has told of the group. A job that is finished becomes a floor in time, unless that would
// hide one that has appeared since the claim.
func (t *Turns) learn(turn *Turn, o Outcome) {
	turn.noCompany, turn.suspect, turn.ahead = o.NoCompany, o.Untried, o.Seen.Ahead
	if !o.Missed {
		turn.priority, turn.misses = o.Priority, misses{}
	}
	if o.OneByOne > 0 {
		turn.single = o.OneByOne
	}
	id := o.Finished
	if id > 0 {
		t.worked, turn.unavailable = true, 0
	}
	if o.Unavailable {
		turn.unavailable++
	}
	if id <= 0 {
		return
	}
	if id >= turn.single {
		turn.single = 0
	}
	if turn.groupSlot { // it tells nothing of lower ids
		return
	}
	if id <= turn.lowest && id > turn.entered {
		t.floors.raise(turn, o.Seen, id)
	}
}

// put hands the group to a waiting lane, or puts it at the end of the line.
func (t *Turns) put(turn *Turn) {
	turn.full = false
	if other := t.known[turn.Key]; turn.groupSlot && other != nil && other != turn {
		t.unlink(other)
	}
	t.known[turn.Key] = turn
	if len(t.waiting) > 0 && t.lanes.may(turn.Queue) {
		if !t.allow(turn) {
			return
		}
		t.begin(turn)
		t.pay(turn)
		t.hand(turn)
		return
	}
	turn.state = inLine
	t.line.push(turn)
}

// quantum is how many turns a group has before those outside the line have theirs, while its queue has more ready
// groups than the line holds. To find a group again costs a tenth of a job.
const quantum = tuning.Few

// An Outcome is what a lane learned of a group.
type Outcome struct {
	Missed      bool          // the claim found nothing: held elsewhere, no jobs, no row, or one of the next two
	NextLocked  bool          // somebody had just locked the next job of a group that several run
	Over        bool          // there was no slot: the queue is at its limit
	Finished    int64         // the id of the job that is gone from the group, or 0
	More        bool          // there is another job behind the one that was claimed
	DueIn       time.Duration // the head may not run before this, or 0
	Paused      bool          // the group or its queue is paused: discovery finds it when it is resumed
	Unavailable bool          // its handler has said so
	Trouble     bool          // the server refuses something about the group: it rests for a while, longer each time
	NoCompany   bool          // the next claim is to be of this group only
	Untried     bool          // the head was not, because it may be what has killed its workers: see Suspects
	OneByOne    int64         // the next claims are to be of one job each, up to the one with this id; or 0
	Seen        lease.Seen    // what the claim has learned
	Priority    int           // the head's, if that is the same as before
}

// Done gives a group back after a lane has tried or worked it.
func (t *Turns) Done(turn *Turn, o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done(turn, o)
}

func (t *Turns) done(turn *Turn, o Outcome) {
	if t.landed(turn) {
		defer t.dispatch()
	}
	defer turn.paid()()
	if turn.suspect || !o.Missed { // else its job is lost again
		t.suspects.leave(turn)
	}
	r := t.part(turn.Queue, turn.share)
	again := turn.again
	hinted := turn.hinted
	turn.again, turn.hinted, turn.given = false, false, t.floors.looks
	if turn.groupSlot && t.leaveTeam(turn, &o, &again) {
		return
	}
	if o.Over {
		turn.hinted = hinted
		t.queueUp(turn)
		return
	}
	t.learn(turn, o)
	if o.Paused {
		t.line.row(turn.Queue).paused = true
	}
	if o.Finished <= 0 {
		// Nothing was finished. So the floor may be wrong: Again may have raised it for a job that was not completed,
		// or a lower id came late.
		t.floors.drop(turn.Key)
	} else {
		turn.trouble.n = 0
	}
	switch {
	case o.Trouble:
		t.leaveAlone(turn, again)
	case o.Missed && turn.floor.id > 0: // one look without it
		t.put(turn)
	case o.Missed:
		// Held elsewhere, or without jobs, or without a row if it was only announced: the scout looks.
		turn.misses.add(turn.head)
		turn.hinted = hinted
		t.watch(turn, 0)
		if hinted {
			t.Wake()
		}
	case o.DueIn > 0:
		t.park(turn, time.Now().Add(o.DueIn))
	case again, o.More &&
		(!r.overflowed || r.len() == 0 || turn.spent+1 < quantum || turn.noCompany || turn.single > o.Finished):
		turn.spent++
		t.put(turn) // one that is to run by itself also to a full line: found anew, it would not be known any more
	default:
		// Nothing known behind it, or more groups than the line holds: the next walk finds it in its turn.
		r.dropped = r.dropped || o.More
		delete(t.known, turn.Key)
	}
}

func (t *Turns) watch(turn *Turn, holder int64) {
	turn.state, turn.holder = heldElsewhere, holder
	t.hinted = t.hinted || turn.hinted
	t.known[turn.Key] = turn
	t.watched[turn] = true
}

// Again prepares to try the group once more instead of giving it back, after a lane has worked it and found nobody
// else in line. It reports false if the group has nothing to do just now; Done is still to be called then.
func (t *Turns) Again(turn *Turn, o Outcome) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.suspects.has(turn) { // until its end is recorded no other one begins
		return false
	}
	if o.Missed || o.Trouble || o.DueIn > 0 || !o.More && !turn.again && !turn.team.wants() {
		return false
	}
	if o.Untried && t.suspects.enter(turn) > 0 {
		return false
	}
	t.learn(turn, o)
	turn.again = false
	t.prepareClaim(turn)
	// If the next claim fails, Done tells of that or an earlier one: they prove nothing of what is known by then.
	turn.entered = o.Finished
	return true
}

// Join is Again for a turn that is to be claimed together with first, if both may be in company.
func (t *Turns) Join(first, turn *Turn, o Outcome) bool {
	if first.noCompany || o.NoCompany || !t.Again(turn, o) {
		return false
	}
	first.with = append(first.with, turn)
	return true
}

// Announce adds a group that a notification told of; id is the lowest new job's, or 0 if that is not known.
func (t *Turns) Announce(key groups.Key, id int64) {
	share := t.shareOf(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.announce(key, share, id)
}

// PutBack is Announce for a job that has its old id again, and so may lie below the group's floor.
func (t *Turns) PutBack(key groups.Key, id int64) {
	share := t.shareOf(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.below(key, id)
	if turn := t.known[key]; turn != nil && turn.state == withLane {
		turn.lowest, turn.putBack = min(turn.lowest, id), min(turn.putBack, id)
	}
	t.announce(key, share, id)
}

func (t *Turns) announce(key groups.Key, share string, id int64) {
	turn := t.known[key]
	switch {
	case t.announceToTeam(turn, key, id):
	case turn == nil:
		if part := t.part(key.Queue, share); t.room(key.Queue, part, nil) <= 0 {
			t.refuse(key.Queue, part, "")
			return
		}
		turn = t.found(key, share)
		turn.head, turn.hinted = id, true
		t.put(turn)
	case turn.state == withLane:
		turn.again = true
	case turn.leftAlone():
		t.disturb(turn)
	case turn.state == dueLater && id < turn.head:
		turn.suspect = false
		t.unlink(turn)
		t.put(turn)
	}
}

// unlink takes a parked or watched turn out of the structure that it waits in.
func (t *Turns) unlink(turn *Turn) {
	switch turn.state {
	case dueLater:
		heap.Remove(&t.due, turn.index)
		delete(t.suspected, turn)
	case heldElsewhere:
		t.unwatch(turn)
	}
}
