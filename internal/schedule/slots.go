package schedule

// Slots are what the process knows of a queue that may run only so many jobs at once, over all processes, or so many of
// a group (team.go). How many it is not told: it takes slots until a claim finds none (package lease). From then on a
// lane may try when one of its own has ended a job and so freed a slot; and for others' sake now and then, one lane
// after the other until a claim finds none again. Nobody tells of a slot that another process has freed, nor of a group
// that it has: so one look of the scout does for both (limits.ask).
type slots struct {
	met        bool // a claim has found no slot; from then on tries bounds the lanes
	tries      int  // how many lanes may still try
	trying     bool // they try for others' sake, until one finds no slot
	asked      bool // a group is watched that is looked at before they do
	groupLimit int  // how many jobs of a group may run at once; 0: one, as in other queues
}

// limits are the slots of the queues that have a limit.
type limits map[string]*slots

// set enters whether a queue has a limit, and how many jobs of a group may run at once.
func (l limits) set(queue string, has bool, groupLimit int) {
	if !has {
		delete(l, queue)
		return
	}
	if l[queue] == nil {
		l[queue] = new(slots)
	}
	l[queue].groupLimit = groupLimit
}

func (l limits) has(queue string) bool { return l[queue] != nil }

// ofGroup returns how many jobs of a group of the queue may run at once, or 0 for one.
func (l limits) ofGroup(queue string) int {
	if m := l[queue]; m != nil {
		return m.groupLimit
	}
	return 0
}

// full reports whether no lane may try to get a slot of the queue.
func (l limits) full(queue string) bool {
	m := l[queue]
	return m != nil && m.met && m.tries <= 0
}

// change enters that so many lanes more work the queue, or fewer.
func (l limits) change(queue string, lanes int) {
	if m := l[queue]; m != nil && m.met {
		m.tries -= lanes
	}
}

// over enters that a claim has found no slot.
func (l limits) over(queue string) {
	if m := l[queue]; m != nil {
		m.met, m.trying = true, false
		m.tries-- // its end is no slot's
	}
}

// under enters that a claim has a slot, and reports whether another lane may try.
func (l limits) under(queue string) bool {
	m := l[queue]
	if m == nil || !m.trying || m.tries > 0 { // one for others' sake is enough
		return false
	}
	m.tries++
	return true
}

// ask reports whether a turn that found no slot is to be watched like one that another process has, because none of its
// queue is: so the scout looks at it before long, and looked lets another claim try.
func (l limits) ask(turn *Turn) bool {
	m := l[turn.Queue]
	if m == nil || m.asked {
		return false
	}
	m.asked, turn.asks = true, true
	return true
}

// looked enters that a turn is watched no more.
func (l limits) looked(turn *Turn) {
	if m := l[turn.Queue]; turn.asks && m != nil {
		m.asked, m.trying = false, true
		if m.tries <= 0 {
			m.tries++
		}
	}
	turn.asks = false
}
