package main

import (
	"maps"
	"math"
	"slices"
	"time"
)

// A wait is how long a job stood at the head of its group, ready to run, before it did. It is ready when it has been
// enqueued and the job before it has been settled.
//
// Besides by the clock a wait is told in rounds. A group's round is from one of its starts to its next; a wait took as
// many as the luckiest other group completed within it. Where all take turns that is one at most: a group that was
// claimed just before starts within the wait, gets back in line right behind, and may start a second time just before,
// if another lane is quicker. Whoever starts a third time has had two rounds while one waited for one.
type wait struct {
	*passage
	sinceSent time.Duration // from when it was ready
	sinceDue  time.Duration // the same, but as if it had been enqueued at the time of its arrival
	rounds    int
}

// maxRounds is where counting ends.
const maxRounds = 32

// waits returns those of all jobs, which must have been worked.
func (t *traffic) waits() []wait {
	list := make([]wait, len(t.passages))
	ready := make([]int64, len(list)) // starts until then
	heads := make(map[int]*passage)
	first := time.Duration(math.MaxInt64) // a job that was there before the worker is ready when that begins
	for i := range t.passages {
		first = min(first, t.passages[i].started.at)
	}
	for i := range t.passages {
		p := &t.passages[i]
		sent, due := p.sent.at, t.origin+p.due
		if sent == 0 {
			sent, due = first, first
		}
		ready[i] = p.sent.starts
		if before := heads[p.group]; before != nil {
			sent, due = max(sent, before.settled.at), max(due, before.settled.at)
			ready[i] = max(ready[i], before.settled.starts)
		}
		heads[p.group] = p
		// A handler may start before its enqueue has returned: 0.
		list[i] = wait{passage: p, sinceSent: max(p.started.at-sent, 0), sinceDue: max(p.started.at-due, 0)}
	}
	t.countRounds(list, ready)
	return list
}

// countRounds needs no look at every start within every wait: a group has completed n rounds within a wait if one of
// its starts came before the wait's end, and the one n starts earlier did not come before the wait. The latest such
// "earlier one" of all starts so far decides.
func (t *traffic) countRounds(list []wait, ready []int64) {
	byStart := make([]int, len(list))
	turns := make(map[int][]int64) // of each group
	for i, w := range list {
		byStart[w.started.starts] = i
		turns[w.group] = append(turns[w.group], w.started.starts)
	}
	for n, more := 1, true; more && n <= maxRounds; n++ {
		more = false
		latest := int64(-1)
		for _, i := range byStart {
			w := &list[i]
			if latest >= ready[i] {
				w.rounds, more = n, true
			}
			if earlier := int(w.number) - n; earlier >= 0 {
				latest = max(latest, turns[w.group][earlier])
			}
		}
	}
}

// contested returns up to which start at least so many groups had jobs left to start. Behind it lanes are idle, and who
// waits does so for the database and not for a turn.
func contested(ends []int64, groups int) int64 {
	if len(ends) < groups {
		return -1
	}
	return ends[len(ends)-groups]
}

// ends returns the last start of each group, in order.
func (t *traffic) ends() []int64 {
	last := make(map[int]int64)
	for i := range t.passages {
		p := &t.passages[i]
		last[p.group] = max(last[p.group], p.started.starts)
	}
	return slices.Sorted(maps.Values(last))
}

// left returns how many groups had jobs left to start at a start.
func left(ends []int64, start int64) int {
	n, _ := slices.BinarySearch(ends, start)
	return len(ends) - n
}
