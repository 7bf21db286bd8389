package groups

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// fifo is a queue in a slice, without a copy per element.
type fifo[T any] struct {
	items []T
	first int
}

func (f *fifo[T]) len() int { return len(f.items) - f.first }

func (f *fifo[T]) push(v T) { f.items = append(f.items, v) }

func (f *fifo[T]) pop() (v T, ok bool) {
	if f.len() == 0 {
		return v, false
	}
	v, f.items[f.first] = f.items[f.first], v
	f.first++
	if f.first > 1024 && f.first > len(f.items)/2 {
		f.items = append(f.items[:0], f.items[f.first:]...)
		f.first = 0
	}
	return v, true
}

// A line is the groups that are ready, in the order of their turns.
type line struct {
	fresh fifo[*Turn] // those of the first walk: they have their first turns before anybody has a second
	rest  fifo[*Turn]
}

func (l *line) len() int { return l.fresh.len() + l.rest.len() }

// front is the part that the next turn comes from.
func (l *line) front() *fifo[*Turn] {
	if l.fresh.len() > 0 {
		return &l.fresh
	}
	return &l.rest
}

func (l *line) pop() (turn *Turn, ok bool) { return l.front().pop() }

// next returns the turn that pop would, or nil.
func (l *line) next() *Turn {
	if f := l.front(); f.len() > 0 {
		return f.items[f.first]
	}
	return nil
}

func (l *line) push(turn *Turn) { l.rest.push(turn) }

// freshen moves the turn that was pushed last to those of the first walk.
func (l *line) freshen() {
	last := len(l.rest.items) - 1
	l.fresh.push(l.rest.items[last])
	l.rest.items[last] = nil
	l.rest.items = l.rest.items[:last]
}

// moveFirst moves the turn that was pushed last to the front.
func (l *line) moveFirst() {
	l.freshen()
	f := &l.fresh
	last := len(f.items) - 1
	v := f.items[last]
	copy(f.items[f.first+1:], f.items[f.first:last])
	f.items[f.first] = v
}

// dueHeap orders turns by the time at which they are due.
type dueHeap struct{ turns []*Turn }

func (h *dueHeap) Len() int           { return len(h.turns) }
func (h *dueHeap) Less(i, j int) bool { return h.turns[i].at.Before(h.turns[j].at) }
func (h *dueHeap) Swap(i, j int) {
	h.turns[i], h.turns[j] = h.turns[j], h.turns[i]
	h.turns[i].index, h.turns[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	t := x.(*Turn)
	t.index = len(h.turns)
	h.turns = append(h.turns, t)
}

func (h *dueHeap) Pop() any {
	last := len(h.turns) - 1
	t := h.turns[last]
	h.turns[last] = nil
	h.turns = h.turns[:last]
	return t
}

func (h *dueHeap) push(t *Turn) { heap.Push(h, t) }

func (h *dueHeap) remove(t *Turn) { heap.Remove(h, t.index) }

// floors remembers the last job that was finished in a group, so that a claim does not walk over the dead entries of
// those before it: vacuum cannot remove them while any transaction is old, and a long job is an old transaction.
//
// A floor is a hint. A lower id may still appear: an enqueue that commits late, a redrive. So all floors are forgotten
// every floorAge, however often they are raised meanwhile; one is dropped when a lower id is announced or discovered,
// and when a claim finds nothing behind it.
//
// A server that crashes without synchronous_commit, or is replaced by a standby, may lose the commit that finished the job,
// and have it again. So a floor is for connections only that are older than that commit: if they are alive, so is the
// server that has it.
type floors struct {
	ids  map[Key]floor
	born time.Time
}

// A floor is the id of a finished job, and how many lanes had been dialed when its turn began.
type floor struct {
	id      int64
	learned int64
}

// dials counts the lanes that were dialed by this process.
var dials atomic.Int64

// floorAge bounds how long a late lower id can be passed over when nobody announces it.
const floorAge = 5 * time.Second

func newFloors() floors { return floors{ids: make(map[Key]floor), born: time.Now()} }

func (f *floors) get(k Key) floor { return f.ids[k] }

func (f *floors) set(k Key, v floor) { f.ids[k] = v }

// below drops the floor of a group if the job with this id lies under it.
func (f *floors) below(k Key, id int64) {
	if id <= f.ids[k].id {
		delete(f.ids, k)
	}
}

func (f *floors) drop(k Key) { delete(f.ids, k) }

// age forgets them all when they are old enough, and reports whether it did.
func (f *floors) age(now time.Time) bool {
	if now.Sub(f.born) < floorAge {
		return false
	}
	f.ids, f.born = make(map[Key]floor), now
	return true
}
