package schedule

import "github.com/pgfifo/pgfifo/groups"

// Slots are what the process knows of a queue that may run only so many jobs at once, over all processes, or so many of
// a group (team.go). How many it is not told: it takes slots until a claim finds none (package lease). From then on a
// lane may try when one of its own has ended a job and so freed a slot; and for others' sake now and then, one lane
// after the other until a claim finds none again. Nobody tells of a slot that another process has freed, nor of a group
// that it has: so one look of the scout does for both (Turns.queueUp).
type slots struct {
	met        bool // a claim has found no slot; from then on tries bounds the lanes
	tries      int  // how many lanes may still try
	trying     bool // they try for others' sake, until one finds no slot
	asked      bool // a group is watched that is looked at before they do
	groupLimit int  // how many jobs of a group may run at once; 0: one, as in other queues
}

// setLimit enters whether a queue has a limit, and how many jobs of a group may run at once.
func (l *lanes) setLimit(queue string, has bool, groupLimit int) {
	if !has {
		delete(l.slots, queue)
		return
	}
	if l.slots[queue] == nil {
		l.slots[queue] = new(slots)
	}
	l.slots[queue].groupLimit = groupLimit
}

// groupLimit returns how many jobs of a group of the queue may run at once, or 0 for one.
func (l *lanes) groupLimit(queue string) int {
	if m := l.slots[queue]; m != nil {
		return m.groupLimit
	}
	return 0
}

func (l *lanes) limited(queue string) bool { return l.slots[queue] != nil }

// Over says that a claim has found no slot of a queue free. The lane has the queue still.
func (t *Turns) Over(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.lanes.slots[queue]; m != nil {
		m.met, m.trying = true, false
		m.tries-- // its end is no slot's
	}
}

// Under says that a claim has a slot of a queue.
func (t *Turns) Under(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.lanes.slots[queue]; m != nil && m.trying && m.tries <= 0 { // one for others' sake is enough
		m.tries++
		t.dispatch()
	}
}

// queueUp gives a group back that found no slot. The first of a queue is watched like one that another process has, so
// the scout looks at it before long: then another claim may try.
func (t *Turns) queueUp(turn *Turn) {
	if m := t.lanes.slots[turn.Queue]; m != nil && !m.asked {
		m.asked, turn.asks = true, true
		t.watch(turn, 0)
		return
	}
	t.put(turn)
}

// found returns a turn for a group that was looked at: with what was known of it, if it was watched until then.
func (t *Turns) found(key groups.Key, share string) *Turn {
	turn := &Turn{Key: key, share: share}
	if was := t.checking[key]; was != nil {
		turn.tried, turn.misses, turn.unavailable, turn.trouble = was.tried, was.misses, was.unavailable, was.trouble
		turn.single, turn.noCompany = was.single, was.noCompany
		delete(t.checking, key)
	}
	return turn
}

// unwatch takes a turn out of those that are watched.
func (t *Turns) unwatch(turn *Turn) {
	delete(t.watched, turn)
	if m := t.lanes.slots[turn.Queue]; turn.asks && m != nil {
		m.asked, m.trying = false, true
		if m.tries <= 0 {
			m.tries++
		}
	}
	turn.asks = false
}
