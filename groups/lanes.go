package groups

// Lanes bounds how many lanes of a process work a queue at once.
type Lanes struct {
	// Min is how many are kept for the queue: other queues leave so many free.
	Min int
	// Max is how many it may have; 0: all.
	Max int
}

// lanes counts the lanes by the queues that they work, and says which queue may have another one.
type lanes struct {
	of      int // in all
	busy    int
	working map[string]int
	bounds  map[string]Lanes // of queues that have any
}

func newLanes() lanes {
	return lanes{working: make(map[string]int), bounds: make(map[string]Lanes)}
}

func (l *lanes) set(queue string, b Lanes) {
	if b == (Lanes{}) {
		delete(l.bounds, queue)
		return
	}
	l.bounds[queue] = b
}

func (l *lanes) begin(queue string) {
	l.busy++
	l.working[queue]++
}

func (l *lanes) end(queue string) {
	l.busy--
	l.working[queue]--
}

// may reports whether a free lane may begin to work the queue: it has not its Max, and either is short of its Min, or
// the other queues can still have theirs.
func (l *lanes) may(queue string) bool {
	if len(l.bounds) == 0 {
		return true
	}
	b, working := l.bounds[queue], l.working[queue]
	if b.Max > 0 && working >= b.Max {
		return false
	}
	if working < b.Min {
		return true
	}
	free := l.of - l.busy - 1
	for other, b := range l.bounds {
		free -= max(0, b.Min-l.working[other])
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
	t.lanes.set(queue, b)
	t.dispatch()
}

// Swap is TryNext for a lane that works a queue and has nothing left to do there. If it returns nil, the lane has the
// queue still.
func (t *Turns) Swap(queue string) *Turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lanes.end(queue)
	turn := t.take()
	if turn == nil {
		t.lanes.begin(queue)
		return nil
	}
	t.dispatch()
	return turn
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
