package groups

import (
	"container/heap"
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
