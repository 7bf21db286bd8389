package schedule

import (
	"container/heap"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// maxParked is how many groups are parked at most. Half of that room is kept for those that are due soon. A group for
// which there is no room is found again later: see look.
const maxParked = 2 * tuning.Known

// parked are the groups that wait in memory until they are due.
type parked struct {
	heap    dueHeap
	most    int           // how many at most
	soon    time.Duration // half of the room is for those that are due within this time
	earlier bell          // rings when another group is due first, or when a queue is to be probed
}

// add makes a group wait until then, and reports whether there was room for it.
func (p *parked) add(turn *Turn, at time.Time) bool {
	if n := p.heap.Len(); n >= p.most || n >= p.most/2 && time.Until(at) > p.soon {
		return false
	}
	turn.state, turn.at = dueLater, at
	heap.Push(&p.heap, turn)
	p.placed(turn)
	return true
}

// move makes a group that waits do so until another time.
func (p *parked) move(turn *Turn, at time.Time) {
	turn.at = at
	heap.Fix(&p.heap, turn.index)
	p.placed(turn)
}

func (p *parked) placed(turn *Turn) {
	if turn.index == 0 {
		p.earlier.ring()
	}
}

func (p *parked) remove(turn *Turn) {
	heap.Remove(&p.heap, turn.index)
}

// crowded reports whether there is room only for what the process itself learns.
func (p *parked) crowded() bool { return p.heap.Len() >= p.most*3/4 }

// dueHeap orders turns by the time at which they are due.
type dueHeap []*Turn

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *dueHeap) Push(x any) {
	turn := x.(*Turn)
	turn.index = len(*h)
	*h = append(*h, turn)
}

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	turn := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return turn
}
