package schedule

import "time"

// Lanes bounds how many lanes of a process work a queue at once.
type Lanes struct {
	// Min is how many are kept for the queue: other queues leave that many free.
	Min int
	// Max is how many it may have; 0: all.
	Max int
}

// lanes counts the lanes by the queues that they work, and says which queue may have another one.
type lanes struct {
	line   *line // its rows have the count of each queue
	of     int   // in all
	busy   int
	bounds map[string]Lanes // of queues that have any
	probes probes
}

func (l *lanes) begin(queue string) { l.change(queue, 1) }

func (l *lanes) end(queue string) { l.change(queue, -1) }

func (l *lanes) change(queue string, by int) {
	r := l.line.row(queue)
	r.work(by * laneParts)
	r.slots.change(by)
	l.busy += by
}

// may reports whether a free lane may begin to work the queue: it is under its limit and its Max; if it is probed, the
// next probe is due; and it is short of its Min, or leaves the other queues theirs.
func (l *lanes) may(queue *row) bool {
	if queue.slots.full() || queue.probe.open && !queue.probe.ready() {
		return false
	}
	if len(l.bounds) == 0 {
		return true
	}
	b, working := l.bounds[queue.name], queue.lanes()
	if b.Max > 0 && working >= b.Max {
		return false
	}
	if working < b.Min {
		return true
	}
	free := l.of - l.busy - 1
	for other, b := range l.bounds {
		free -= max(0, b.Min-l.line.row(other).lanes())
	}
	return free >= 0
}

// bound notes how many lanes may work a queue.
func (l *lanes) bound(queue string, b Lanes) {
	if l.bounds[queue] = b; b == (Lanes{}) {
		delete(l.bounds, queue)
	}
}

// settled notes what Turns.Settled says.
func (l *lanes) settled(queue string, next *Turn) {
	if next.swapped.IsZero() {
		return
	}
	took := time.Since(next.swapped)
	next.swapped = time.Time{}
	l.line.row(queue).use(took, laneParts)
	l.line.row(next.Queue).use(-took, laneParts)
	for _, turn := range next.All() {
		if turn.lanePart > 0 {
			turn.row.use(-took, turn.lanePart)
		}
	}
}

// stay notes what Turns.Stay says.
func (l *lanes) stay(queue string, next *Turn) {
	l.settled(queue, next)
	l.end(next.Queue)
	l.begin(queue)
}

// usedLess reports whether a turn's queue, or its share where its queue has the next turn, has nothing else in line,
// and has had less of the lanes' time than those that have.
func (l *lanes) usedLess(turn *Turn) bool {
	r := l.line.row(turn.Queue)
	switch {
	case r.len() == 0:
		return r.used+evenWithin < l.line.leastUsed(l.may)
	case r.shares == nil || len(turn.with) > 0 || !r.shares.usedLess(turn):
		return false
	}
	return r.used <= l.line.leastUsed(l.may)+evenWithin
}
