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

// with calls f with the book, while the lock is held.
func (t *Turns) with(f func(*book)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.book)
}

// View returns a View. The next one tells of what is done from now on (Worked, paused).
func (t *Turns) View() View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := View{
		Ready: t.line.n, Idle: len(t.waiting) > 0 && t.line.n == 0, Worked: t.worked,
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

// Recheck forgets watched groups, whose heads are looked at next: those that are offered or announced until done is
// called come back with what was known of them.
func (t *Turns) Recheck(keys []groups.Key) (done func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.watched.checking)
	for _, key := range keys {
		if turn := t.known[key]; turn != nil && turn.state == heldElsewhere {
			t.watched.checking[key] = turn
			t.unlink(turn)
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
