package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A View is what the scout needs to know of the Turns.
type View struct {
	Room    int  // for how many more groups there is room in the line of the queue that has the most
	Ready   int  // groups in line
	Idle    bool // lanes wait for a group, and none is in line
	Worked  bool // jobs were worked since the last call of View
	Watched int  // groups that others hold, or that were missed
	Crowded bool // so many are due later that there is room only for those of which the process itself learns
	Hinted  bool // one more of them, since they were looked at, was announced and missed: it may have no row
	// Unproven is how many claims, since writers were last asked for, have left a floor waiting: their snapshots do not
	// show that all have ended who may bring a lower id.
	Unproven int
	rooms    []queueRoom
	refill   refill
}

// A queueRoom is what the scout needs to know of a queue's part of the line.
type queueRoom struct {
	room    int  // for so many more groups
	roomy   bool // it has had room for all since the last walk began
	low     bool // it is half empty, or more than that
	started bool // the first walk is over
	paused  bool // a claim has found a group paused since the last call of View
}

// scout says whose rooms a View has.
func (t *Turns) scout(queues []string) {
	for _, q := range queues {
		t.scouted = append(t.scouted, t.line.row(q))
	}
}

// View returns a View. The next one tells of what is done from now on (Worked, paused).
func (t *Turns) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := View{
		Ready: t.line.len(), rooms: make([]queueRoom, len(t.scouted)),
		Idle: len(t.waiting) > 0 && t.line.len() == 0, Worked: t.worked,
		Watched: len(t.watched), Crowded: t.due.Len() >= t.most*3/4, Unproven: t.floors.unproven,
		Hinted: t.hinted,
	}
	for i, r := range t.scouted {
		p := queueRoom{room: t.limit, roomy: true}
		if r.shares != nil {
			v.refill = t.refillOf(r, v.refill)
		} else {
			p.room -= r.len()
			if p.room <= 0 { // nothing is looked for, until there is
				r.overflowed, r.started = true, true
			}
			p.roomy, p.low = !r.overflowed, p.room >= t.limit/2
		}
		p.started, p.paused = r.started, r.paused
		v.rooms[i], v.Room = p, max(v.Room, p.room)
		r.paused = false
	}
	t.worked = false
	t.floors.age(time.Now())
	return v
}

// AskWriters says that the transactions which write to the jobs are about to be asked for.
func (t *Turns) AskWriters() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.ask()
}

// Writers enters the answer to AskWriters: who they are, and whether one of them is prepared.
func (t *Turns) Writers(writers []string, prepared bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.answered(writers, prepared)
}

// LookBegins says that heads are about to be looked for, to be offered then.
func (t *Turns) LookBegins() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.looks++
}

// Checked says that the heads of all groups have been offered since the given time. For as long as keep they need not
// be looked at again for jobs that were put back.
func (t *Turns) Checked(since time.Time, keep time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.checked(since, keep)
}

// Forget drops all floors of a queue: jobs were put back, it is not known which.
func (t *Turns) Forget(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.forget(queue)
	for key, turn := range t.known {
		if key.Queue == queue {
			turn.lowest = 0
		}
	}
}

// Walked says that a walk over all groups of a queue has ended, and whether the line had room for every ready one.
// While it has not, a group that was worked does not go back in line for ever: it would keep out those that the walk
// has yet to reach.
func (t *Turns) Walked(queue string, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.line.row(queue)
	r.overflowed, r.dropped, r.started = r.shares == nil && (!complete || r.dropped), false, true
}

// Watched returns the transactions that hold groups elsewhere, each once, and the groups of which the holder is not
// known.
func (t *Turns) Watched() (xids []int64, unknown []groups.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hinted = false
	seen := make(map[int64]bool, len(t.watched))
	for turn := range t.watched {
		switch {
		case turn.holder == 0 && turn.misses.leftAlone(turn.head):
		case turn.holder == 0 || turn.groupSlot && time.Since(turn.tried) >= t.poll: // see offerRunning
			unknown = append(unknown, turn.Key)
		case !seen[turn.holder]:
			seen[turn.holder] = true
			xids = append(xids, turn.holder)
		}
	}
	return xids, unknown
}

// Kept returns the groups that sessions hold, and their numbers.
func (t *Turns) Kept() (keys []groups.Key, sessions []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for turn := range t.watched {
		if turn.holder < 0 {
			keys, sessions = append(keys, turn.Key), append(sessions, -turn.holder)
		}
	}
	return keys, sessions
}

// WatchedBy returns the groups held by the given transactions, all of them and those whose worker died.
func (t *Turns) WatchedBy(died map[int64]bool) (keys []groups.Key, orphans map[groups.Key]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	orphans = make(map[groups.Key]bool)
	for turn := range t.watched {
		if dead, ended := died[turn.holder]; ended && turn.holder != 0 {
			keys = append(keys, turn.Key)
			turn.tried = time.Time{} // there is room, where several jobs of the group may run
			if dead {
				orphans[turn.Key] = true
			}
		}
	}
	return keys, orphans
}

// Recheck forgets watched groups, whose heads are looked at next: those that are offered or announced until done is
// called come back with what was known of them.
func (t *Turns) Recheck(keys []groups.Key) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.checking)
	for _, key := range keys {
		if turn := t.known[key]; turn != nil && turn.state == heldElsewhere {
			t.checking[key] = turn
			t.unwatch(turn)
			delete(t.known, key)
		}
	}
	t.dispatch()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		clear(t.checking)
	}
}

// Wake has the scout see at once what has changed: a lane waits for a group, say.
func (t *Turns) Wake() { t.wake.ring() }
