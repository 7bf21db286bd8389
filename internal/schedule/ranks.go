package schedule

import (
	"cmp"
	"slices"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// MaxPriority is the highest priority of a job; 0 is that of one without.
const MaxPriority = 9

const (
	// guaranteed says how often the group that waits longest has the turn: one time in so many.
	guaranteed = tuning.Many
	// maxUrgent is how many groups of one priority a look reads. When a row has that many in line, no more are looked
	// for. There are several priorities, so it is half of what another statement reads.
	maxUrgent = tuning.Rows / 2
)

// Ranks are the groups of a row by the priority of their heads. Those of the highest have its turns, except one in ten,
// which is for the group that waits longest, whatever its priority. So a flood of one priority does not starve the
// rest.
type ranks struct {
	lists  [MaxPriority + 1][]*Turn // by priority; without one, those that are not fresh
	ranked int                      // groups with a priority
	passed int                      // turns by priority since that of the group that waits longest, while others waited
	came   int64                    // turns that were pushed to the row
}

// front is the list that the next turn comes from.
func (r *row) front() *[]*Turn {
	oldest := &r.lists[0]
	if len(r.fresh) > 0 {
		oldest = &r.fresh
	}
	if r.ranked == 0 {
		return oldest
	}
	if r.passed < guaranteed-1 {
		p := MaxPriority
		for len(r.lists[p]) == 0 {
			p--
		}
		return &r.lists[p]
	}
	for p := range r.lists {
		list := &r.lists[p]
		if len(*oldest) == 0 || len(*list) > 0 && (*list)[0].came < (*oldest)[0].came {
			oldest = list
		}
	}
	return oldest
}

// pop takes the next turn.
func (r *row) pop() *Turn {
	last, before := r.passed >= guaranteed-1, r.passed
	list := r.front()
	turn := (*list)[0]
	(*list)[0] = nil // the array stays for a while
	*list = (*list)[1:]
	if turn.rank > 0 {
		r.ranked--
	}
	if turn.rank > 0 && !last && r.len() > 0 {
		r.passed++
	} else {
		r.passed = 0
	}
	turn.counted, turn.early = r.passed-before, list == &r.fresh
	return turn
}

// push puts a turn behind the others of its priority. One that is returned was not used: what it counted for is undone.
func (r *row) push(turn *Turn) {
	r.came++
	switch turn.row = r; {
	case turn.returned:
		r.passed = min(max(r.passed-turn.counted, 0), guaranteed-1)
	case turn.orphan:
		turn.came = 0
	default:
		turn.came = r.came
	}
	r.place(turn)
}

// place puts a turn into its list, behind those that came before it: so one that is returned is where it was. One whose
// worker has died goes to the front: its job starts again 20 ms after the kill (p50, bench/RESULTS.md, recovery).
func (r *row) place(turn *Turn) {
	turn.rank = turn.priority
	list := &r.lists[turn.rank]
	switch {
	case turn.rank > 0:
		r.ranked++
	case turn.fresh, turn.orphan, turn.returned && turn.early:
		list = &r.fresh
	}
	at := len(*list)
	for at > 0 && (*list)[at-1].came > turn.came {
		at--
	}
	*list = slices.Insert(*list, at, turn)
}

// rerank moves the turns whose priority has changed.
func (r *row) rerank() {
	var moved []*Turn
	take := func(turn *Turn) bool {
		if turn.rank == turn.priority {
			return false
		}
		if turn.rank > 0 {
			r.ranked--
		}
		moved = append(moved, turn)
		return true
	}
	r.fresh = slices.DeleteFunc(r.fresh, take)
	for p := range r.lists {
		r.lists[p] = slices.DeleteFunc(r.lists[p], take)
	}
	slices.SortFunc(moved, func(a, b *Turn) int { return cmp.Compare(a.came, b.came) })
	for _, turn := range moved {
		r.place(turn)
	}
}
