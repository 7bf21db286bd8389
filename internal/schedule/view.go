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
	Hinted  bool // since they were looked at, another one was announced and missed: it may have no row
	// Unproven is how many claims, since writers were last asked for, have left a floor waiting: their snapshots do not
	// show that all who may bring a lower id have ended.
	Unproven int
	rooms    []queueRoom
	refill   refill
}

// setScout says whose rooms a View has, what is due soon, so that half of the room for parked groups is for it, and how
// often the scout looks.
func (t *Turns) setScout(queues []string, soon, poll time.Duration) {
	t.parked.soon, t.poll = soon, poll
	for _, q := range queues {
		t.rooms.scouted = append(t.rooms.scouted, t.line.row(q))
	}
}

// View returns a View. The next one tells of what is done from now on (Worked, paused).
func (t *Turns) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := View{
		Ready: t.line.len(), Idle: len(t.waiting) > 0 && t.line.len() == 0, Worked: t.worked,
		Watched: len(t.watched.turns), Hinted: t.watched.hinted,
		Crowded: t.parked.crowded(), Unproven: t.floors.unproven,
	}
	v.rooms, v.Room, v.refill = t.rooms.look()
	t.worked = false
	t.floors.age(time.Now())
	return v
}

// Offer adds what discovery found, and reports how many of the candidates were news.
func (t *Turns) Offer(cs []Candidate) (news int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	reranked := make(map[*row]bool)
	for _, c := range cs {
		if t.offer(c, reranked) {
			news++
		}
	}
	for r := range reranked {
		r.rerank()
	}
	t.dispatch() // a queue may have no limit any more
	return news
}

// admit says to which shares candidates belong, and returns those for which there is room. If a walk has found them, w
// is that.
func (t *Turns) admit(cs []Candidate, w *walk) []Candidate {
	if len(t.shares) == 0 {
		return cs
	}
	t.shares.divide(cs)
	t.mu.Lock()
	defer t.mu.Unlock()
	coming := make(map[*row]int)
	last := ""
	if w != nil {
		last = w.after
	}
	admitted := cs[:0]
	for _, c := range cs {
		if c.Holder != 0 || c.DueIn > 0 || c.Paused || c.Orphan || t.known[c.Key] != nil ||
			t.rooms.forPriority(c) || t.rooms.admit(c, coming, w, last) {
			admitted = append(admitted, c)
		}
		if w != nil {
			last = c.GroupID
		}
	}
	return admitted
}

// unknown returns the groups that are to be looked at because of the hints, each once: jobs that are new, or due soon.
// They need not be heads. DueIn is 0 if it is not known.
func (t *Turns) unknown(hints []Candidate) (keys []groups.Key) {
	t.shares.divide(hints)
	t.mu.Lock()
	defer t.mu.Unlock()
	seen, coming := make(map[groups.Key]bool), make(map[*row]int)
	for _, h := range hints {
		t.floors.found(h.Key, h.ID)
		turn := t.known[h.Key]
		switch {
		case turn != nil && turn.claimable():
			turn.lowest = min(turn.lowest, h.ID)
			// If it is another job than the one that the turn is for, it may be newer than the lane's claim, and no
			// look reads it again.
			turn.again = turn.again || turn.state == withLane && h.ID != turn.head
		case turn != nil && (turn.state == heldElsewhere || turn.parked(h.ID, h.DueIn)):
		case !seen[h.Key]:
			seen[h.Key] = true
			if t.rooms.admit(h, coming, nil, "") {
				keys = append(keys, h.Key)
			}
		}
	}
	return keys
}

// outranked returns the groups that are to be looked at because of the hints, each once: jobs with a priority.
func (t *Turns) outranked(hints []Candidate) (keys []groups.Key) {
	t.shares.divide(hints)
	t.mu.Lock()
	defer t.mu.Unlock()
	seen := make(map[groups.Key]bool)
	for _, h := range hints {
		turn := t.known[h.Key]
		switch {
		case seen[h.Key], turn == nil && !t.rooms.forPriority(h):
		case turn == nil, turn.state == inLine && turn.priority < h.Priority:
			seen[h.Key] = true
			keys = append(keys, h.Key)
		}
	}
	return keys
}

// fullLevels returns the levels that have no room for more groups in line.
func (t *Turns) fullLevels() map[level]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rooms.fullLevels()
}

// refilled notes how far a refill has come; more says that there may be groups behind.
func (t *Turns) refilled(queue string, w *walk, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rooms.refilled(queue, w, more)
}

// AskWriters says that the transactions which write to the jobs are about to be asked for.
func (t *Turns) AskWriters() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.floors.ask()
}

// Writers notes the answer to AskWriters: who they are, and whether one of them is prepared.
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
	t.rooms.walked(queue, complete)
}

// Watched returns the transactions that hold groups elsewhere, each once, and the groups of which the holder is not
// known.
func (t *Turns) Watched() (xids []int64, unknown []groups.Key) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched.holders(t.poll)
}

// Kept returns the groups that sessions hold, and their numbers.
func (t *Turns) Kept() (keys []groups.Key, sessions []int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched.kept()
}

// WatchedBy returns the groups held by the given transactions, all of them and those whose worker died.
func (t *Turns) WatchedBy(died map[int64]bool) (keys []groups.Key, orphans map[groups.Key]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.watched.by(died)
}

// Recheck forgets watched groups, whose heads are looked at next: those that are offered or announced until done is
// called come back with what was known of them.
func (t *Turns) Recheck(keys []groups.Key) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.watched.checking)
	for _, key := range keys {
		if turn := t.known[key]; turn != nil && turn.state == heldElsewhere {
			t.watched.checking[key] = turn
			t.unwatch(turn)
			delete(t.known, key)
		}
	}
	t.dispatch()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		clear(t.watched.checking)
	}
}

// Wake makes the scout see at once what has changed: a lane waits for a group, say.
func (t *Turns) Wake() { t.wake.ring() }
