package schedule

import (
	"container/heap"
	"context"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Groups whose heads are not due yet are parked in memory until they are.

// maxParked is how many groups are parked at most. Half of that room is kept for those that are due soon. A group for
// which there is no room is found again later: see look.
const maxParked = 2 * tuning.Known

// park has a group wait until then, if there is room for it.
func (t *Turns) park(turn *Turn, at time.Time) {
	if n := t.due.Len(); n >= t.most || n >= t.most/2 && time.Until(at) > t.soon {
		delete(t.known, turn.Key)
		return
	}
	turn.state, turn.at = dueLater, at
	t.known[turn.Key] = turn
	heap.Push(&t.due, turn)
	if turn.index == 0 {
		t.earlier.ring()
	}
}

// Run puts groups in line when they are due, and has queues probed and suspects tried, until ctx ends.
func (t *Turns) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if wait := t.Due(); wait >= 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-t.earlier:
		}
	}
}

// Due puts the groups in line whose time has come, and returns how long it is until the next one, or probe, or -1.
func (t *Turns) Due() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trySuspects()
	next := t.nextProbe()
	for t.due.Len() > 0 {
		turn := t.due[0]
		if wait := time.Until(turn.at); wait > 0 {
			if next < 0 || wait < next {
				next = wait
			}
			break
		}
		t.unlink(turn)
		t.put(turn)
	}
	return next
}

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
