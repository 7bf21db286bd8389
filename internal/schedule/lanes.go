package schedule

import (
	"slices"
	"time"
)

// Lanes bounds how many lanes of a process work a queue at once.
type Lanes struct {
	// Min is how many are kept for the queue: other queues leave so many free.
	Min int
	// Max is how many it may have; 0: all.
	Max int
}

// lanes counts the lanes by the queues that they work, and says which queue may have another one.
type lanes struct {
	line    *line // its rows have the count of each queue
	of      int   // in all
	busy    int
	probing int               // queues
	bounds  map[string]Lanes  // of queues that have any
	slots   map[string]*slots // of queues that have one
}

func (l *lanes) begin(queue string) { l.change(queue, 1) }

func (l *lanes) end(queue string) { l.change(queue, -1) }

func (l *lanes) change(queue string, by int) {
	l.line.row(queue).work(by * laneParts)
	l.busy += by
	if m := l.slots[queue]; m != nil && m.met {
		m.tries -= by
	}
}

func (l *lanes) working(queue string) int {
	if r := l.line.rows[queue]; r != nil {
		return r.working / laneParts
	}
	return 0
}

// may reports whether a free lane may begin to work the queue: it is not at its limit, is not probed, or the next probe
// is due, has not its Max, and either is short of its Min, or the other queues can still have theirs.
func (l *lanes) may(queue string) bool {
	if m := l.slots[queue]; m != nil && m.met && m.tries <= 0 {
		return false
	}
	if p := l.probed(queue); p != nil && !p.ready() {
		return false
	}
	if len(l.bounds) == 0 {
		return true
	}
	b, working := l.bounds[queue], l.working(queue)
	if b.Max > 0 && working >= b.Max {
		return false
	}
	if working < b.Min {
		return true
	}
	free := l.of - l.busy - 1
	for other, b := range l.bounds {
		free -= max(0, b.Min-l.working(other))
	}
	return free >= 0
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
	if t.lanes.bounds[queue] = b; b == (Lanes{}) {
		delete(t.lanes.bounds, queue)
	}
	t.dispatch()
}

// Swap is TryNext for a lane that has worked a turn, and has still to settle it. Settled says that it has; Return takes
// the other turn back. If Swap returns nil, the lane has the turn's queue still, and stay says whether it may go on
// there. more says that it could, with the same group: so it should while all other queues in line, or all other shares
// of the queue, have had more of the lanes' time.
func (t *Turns) Swap(was *Turn, more bool) (turn *Turn, stay bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	queue := was.Queue
	t.lanes.end(queue)
	stay = t.lanes.may(queue) && t.lanes.probed(queue) == nil
	if more && stay && t.usedLess(was) {
		t.lanes.begin(queue)
		return nil, stay
	}
	turn = t.take()
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
	t.settled(queue, next)
}

func (t *Turns) settled(queue string, next *Turn) {
	if next.swapped.IsZero() {
		return
	}
	took := time.Since(next.swapped)
	next.swapped = time.Time{}
	t.line.row(queue).use(took, laneParts)
	t.line.row(next.Queue).use(-took, laneParts)
	for _, turn := range append([]*Turn{next}, next.with...) {
		if turn.lanePart > 0 {
			turn.row.use(-took, turn.lanePart)
		}
	}
}

// Stay says that the lane which was given next has the queue still that it has worked before.
func (t *Turns) Stay(queue string, next *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stay(queue, next)
	t.dispatch()
}

func (t *Turns) stay(queue string, next *Turn) {
	t.settled(queue, next)
	t.lanes.end(next.Queue)
	t.lanes.begin(queue)
}

// Return takes the turn and those with it back from a lane that has made no use of them, to where they were in line.
// The lane stays with the queue that it has worked before.
func (t *Turns) Return(queue string, next *Turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stay(queue, next)
	for _, turn := range slices.Backward(append([]*Turn{next}, next.with...)) {
		turn.returned, turn.spent = true, max(turn.spent-1, 0)
		t.done(turn, Outcome{More: true, Priority: turn.priority, Untried: turn.suspect, NoCompany: turn.noCompany})
		turn.returned = false
	}
	t.dispatch()
}

// usedLess reports whether a turn's queue, or its share where its queue has the next turn, has nothing else in line,
// and has had less of the lanes' time than those that have.
func (t *Turns) usedLess(turn *Turn) bool {
	r := t.line.row(turn.Queue)
	switch {
	case r.len() == 0:
		return r.used+evenWithin < t.line.leastUsed(t.lanes.may)
	case r.shares == nil || len(turn.with) > 0 || !r.shares.usedLess(turn):
		return false
	}
	return r.used <= t.line.leastUsed(t.lanes.may)+evenWithin
}

// Free says that a lane which worked a queue does so no more.
func (t *Turns) Free(queue string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.end(queue)
	t.dispatch()
}

// dispatch gives waiting lanes what they were not allowed to take before.
func (t *Turns) dispatch() {
	for len(t.waiting) > 0 && t.line.len() > 0 {
		turn := t.take()
		if turn == nil {
			return
		}
		t.hand(turn)
	}
}

// hand hands a turn that was taken to the lane that waits for the shortest time.
func (t *Turns) hand(turn *Turn) {
	last := len(t.waiting) - 1
	t.waiting[last] <- turn // buffered
	t.waiting = t.waiting[:last]
}
