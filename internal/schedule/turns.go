package schedule

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// Turns keeps the groups that may have a job to run, and hands them to the lanes of a process in turn: queue by queue,
// by the lanes' time that each has used, and a group that was worked goes to the end of its queue. So none starves
// another. All it knows is a hint; the claim decides.
//
// The zero value is not usable; see NewTurns. It is safe for concurrent use.
type Turns struct {
	shares divided
	mu     sync.Mutex
	book
}

// NewTurns returns Turns that keep up to limit groups of each queue in the line. What a look or a walk finds in one
// statement, and what becomes due, may come on top.
func NewTurns(limit int) *Turns {
	now := time.Now()
	t := &Turns{shares: make(divided), book: book{
		known: make(map[groups.Key]*Turn), teams: make(map[groups.Key]*team), suspected: make(map[*Turn]bool),
		line: newLine(), batches: make(map[string]Batch), wake: newBell(),
		parked:  parked{most: maxParked, earlier: newBell()},
		watched: watched{turns: make(map[*Turn]bool), checking: make(map[groups.Key]*Turn)},
		floors:  floors{fresh: make(map[groups.Key]groupFloor), swept: now, born: now, validFor: floorAge, looks: 1},
	}}
	t.rooms = rooms{line: &t.line, limit: limit}
	t.lanes.line, t.lanes.probes.line, t.lanes.bounds = &t.line, &t.line, make(map[string]Lanes)
	return t
}

// SetBatch says how much of a queue a claim may take; without it, one job. Not after the first turn was taken.
func (t *Turns) SetBatch(queue string, b Batch) { t.batches[queue] = b }

// SetShares divides the groups of a queue among shares, which have its lanes by turns. Not after the first turn was
// taken.
func (t *Turns) SetShares(queue string, s Shares) {
	l := newLine()
	l.weights, l.others = s.Weights, &row{weight: 1}
	t.line.row(queue).shares = &l
	t.shares[queue] = s.Of
}

// SetSuspects makes suspects wait for each other, also for those of other Turns. Not after the first turn was taken.
func (t *Turns) SetSuspects(s *Suspects) {
	t.suspects = s
	s.bells = append(s.bells, t.parked.earlier)
}

// SetConcurrency says how many lanes there are. Without it no lanes are kept.
func (t *Turns) SetConcurrency(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.of = n
}

// SetLanes bounds how many lanes may work a queue at once, from the next turn on.
func (t *Turns) SetLanes(queue string, b Lanes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.bound(queue, b)
	t.dispatch()
}

// Run puts groups in line when they are due, and lets queues be probed and suspects be tried, until ctx ends.
func (t *Turns) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	for {
		if wait := t.Due(); wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.parked.earlier:
		}
	}
}

// Due puts the groups in line whose time has come, and returns how long it is until the next one, or probe, or -1.
func (t *Turns) Due() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due()
}

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
	t.wake.ring()
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
	t.lanes.probes.landed(turn)
	for _, back := range turn.All() {
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

// Over says that a claim has found no slot of a queue free. The lane still has the queue.
func (t *Turns) Over(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line.row(queue).slots.over()
}

// Under says that a claim has a slot of a queue.
func (t *Turns) Under(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line.row(queue).slots.under() {
		t.dispatch()
	}
}

// Started says that a lane is about to run a job of its turn's group, as everybody can see by now. more says that there
// are jobs behind it, suspect that it may be what has killed its workers.
func (t *Turns) Started(turn *Turn, id int64, more, suspect bool) {
	if suspect {
		t.suspects.begin(turn)
	} else if turn.suspect {
		t.suspects.leave(turn)
	}
	turn.suspect = false
	if !turn.groupSlot {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.joinTeam(turn, id, more)
}

// Overtakes reports whether a claim that has found this job may have overtaken one that was put back, by a redrive say,
// since the claim was requested: the claim may have waited for what settles the job before.
func (t *Turns) Overtakes(turn *Turn, id int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return turn.putBack < id
}

// Answer says what a lane has heard about what the jobs of its turn's queue need: it is up, because a job is done, or
// it is down. It reports whether the queue is probed now, and whether that is new. While it is, only what a probe has
// heard counts: the other turns are older.
func (t *Turns) Answer(turn *Turn, up bool) (probed, changed bool) {
	if up && t.lanes.probes.sick.Load() == 0 {
		return false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	probed, changed = t.lanes.probes.answer(turn, up)
	if changed && up {
		t.dispatch()
	} else if probed && !up {
		t.parked.earlier.ring()
	}
	return probed, changed
}

// Unavailable returns how often in a row the handler of the turn's head has said that, as far as this process knows.
func (t *Turns) Unavailable(turn *Turn) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return turn.unavailable
}

// Probed returns the queues that are probed, sorted.
func (t *Turns) Probed() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lanes.probes.queues()
}

// Done gives a group back after a lane has tried or worked it.
func (t *Turns) Done(turn *Turn, o Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done(turn, o)
}

// Free says that a lane which worked a queue does so no more.
func (t *Turns) Free(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.end(queue)
	t.dispatch()
}

// Again prepares to try the group once more instead of giving it back, after a lane has worked it and found nobody
// else in line. It reports false if the group has nothing to do just now; Done is still to be called then.
func (t *Turns) Again(turn *Turn, o Outcome) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.suspects.has(turn), // until its end is recorded no other one begins
		o.Missed, o.Trouble, o.DueIn > 0, !o.More && !turn.again && !turn.team.wants(),
		o.Untried && t.suspects.enter(turn) > 0:
		return false
	}
	t.learn(turn, o)
	turn.again = false
	t.prepareClaim(turn)
	// If the next claim fails, Done tells of that job again or of an earlier one: neither proves anything by then.
	turn.finished = o.Finished
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

// Swap is TryNext for a lane that has worked a turn, and has still to settle it. Settled says that it has; Return takes
// the other turn back. If Swap returns nil, the lane still has the turn's queue, and stay says whether it may go on
// there. more says that it could, with the same group: so it should while all other queues in line, or all other shares
// of the queue, have had more of the lanes' time.
func (t *Turns) Swap(was *Turn, more bool) (turn *Turn, stay bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := was.Queue
	r := t.line.row(queue)
	t.lanes.end(queue)
	stay = t.lanes.may(r) && !r.probe.open
	if !more || !stay || !t.lanes.usedLess(was) {
		turn = t.take()
	}
	if turn == nil {
		t.lanes.begin(queue)
		return nil, stay
	}
	turn.swapped = time.Now()
	t.dispatch()
	return turn, false
}

// Settled says that the lane which was given next is done with what it has worked before in the queue. What it has used
// since was that queue's time, and that of the share before, which pays until Done.
func (t *Turns) Settled(queue string, next *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.settled(queue, next)
}

// Stay says that the lane which was given next still has the queue that it has worked before.
func (t *Turns) Stay(queue string, next *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.stay(queue, next)
	t.dispatch()
}

// Return takes the turn and those with it back from a lane that has made no use of them, to where they were in line.
// The lane stays with the queue that it has worked before.
func (t *Turns) Return(queue string, next *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.stay(queue, next)
	for _, turn := range slices.Backward(next.All()) {
		turn.returned, turn.spent = true, max(turn.spent-1, 0)
		t.done(turn, Outcome{More: true, Priority: turn.priority, Untried: turn.suspect, NoCompany: turn.noCompany})
		turn.returned = false
	}
	t.dispatch()
}

// Announce adds a group that a notification told of; id is the lowest new job's, or 0 if that is not known.
func (t *Turns) Announce(key groups.Key, id int64) {
	share := t.shares.of(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.announce(key, share, id)
}

// PutBack is Announce for a job that has its old id again, and so may lie below the group's floor.
func (t *Turns) PutBack(key groups.Key, id int64) {
	share := t.shares.of(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.below(key, id)
	if turn := t.known[key]; turn != nil && turn.state == withLane {
		turn.lowest, turn.putBack = min(turn.lowest, id), min(turn.putBack, id)
	}
	t.announce(key, share, id)
}

// Urge is Announce for a job with a priority. Unless a lane waits for work, the scout looks at once whether it is the
// head of its group.
func (t *Turns) Urge(key groups.Key, id int64) {
	share := t.shares.of(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[key] != nil || len(t.waiting) > 0 || t.rooms.part(key.Queue, share).ranked >= maxUrgent {
		t.announce(key, share, id)
		return
	}
	t.watch(&Turn{Key: key, share: share, head: id, hinted: true}, 0)
	t.wake.ring()
}
