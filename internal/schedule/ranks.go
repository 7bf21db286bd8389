package schedule

import (
	"cmp"
	"slices"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// MaxPriority is the highest priority of a job; 0 is that of one without.
const MaxPriority = 9

const (
	// guaranteed is of how many turns one is that of the group which waits longest.
	guaranteed = tuning.Many
	// maxUrgent is how many groups of one priority are looked for, in each row: when so many are in line, no more. A
	// look reads so many of each priority. So it is half of what another statement reads.
	maxUrgent = tuning.Rows / 2
)

// Ranks are the groups of a row whose heads have a priority. Those of the highest have its turns, but for one in ten:
// that is for who waits longest, whatever the priority. So the others have a part that nobody can take from them.
type ranks struct {
	lists  [MaxPriority]waitlist // from priority 1 on
	ranked int                   // groups in them
	passed int                   // turns since the last of those for who waits longest, while others waited
	came   int64                 // turns that were pushed to the row
}

// rank returns the list of a priority above 0.
func (r *ranks) rank(priority int) *waitlist { return &r.lists[priority-1] }

// highest returns the list that goes first, if there is any group in them.
func (r *ranks) highest() *waitlist {
	p := MaxPriority
	for r.rank(p).len() == 0 {
		p--
	}
	return r.rank(p)
}

// front is the part that the next turn comes from.
func (r *row) front() *waitlist {
	longest := &r.seenBefore
	if r.fresh.len() > 0 {
		longest = &r.fresh
	}
	if r.ranked == 0 {
		return longest
	}
	if r.passed < guaranteed-1 {
		return r.highest()
	}
	for i := range r.lists {
		if f := &r.lists[i]; longest.len() == 0 || f.len() > 0 && f.head().came < longest.head().came {
			longest = f
		}
	}
	return longest
}

// pop takes the next turn.
func (r *row) pop() *Turn {
	last, before := r.passed >= guaranteed-1, r.passed
	list := r.front()
	turn := list.pop()
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

// push puts a turn behind the others of its priority. One that is returned was not had: what it counted for is undone.
func (r *row) push(turn *Turn) {
	r.came++
	if turn.row = r; turn.returned {
		r.passed = min(max(r.passed-turn.counted, 0), guaranteed-1)
	} else {
		turn.came = r.came
	}
	r.place(turn)
}

// place puts a turn at the end of its list. It goes to the front if it was there before, and no use was made of it, or
// if its worker has died: its job starts again 20 ms after the kill (p50, bench/RESULTS.md, recovery).
func (r *row) place(turn *Turn) {
	turn.rank = turn.priority
	list := &r.seenBefore
	switch {
	case turn.rank > 0:
		list = r.rank(turn.rank)
		r.ranked++
	case turn.fresh, turn.orphan, turn.returned && turn.early:
		list = &r.fresh
	}
	if turn.orphan || turn.returned {
		list.pushFirst(turn)
	} else {
		list.push(turn)
	}
}

// rerank moves the turns whose priority has changed.
func (r *row) rerank() {
	moved := append(misplaced(&r.fresh), misplaced(&r.seenBefore)...)
	for i := range r.lists {
		changed := misplaced(&r.lists[i])
		r.ranked -= len(changed)
		moved = append(moved, changed...)
	}
	slices.SortFunc(moved, func(a, b *Turn) int { return cmp.Compare(a.came, b.came) })
	for _, turn := range moved {
		r.place(turn)
	}
}

// misplaced takes the turns out of a list that are not of its priority.
func misplaced(f *waitlist) (moved []*Turn) {
	kept := f.items[:f.first]
	for _, turn := range f.items[f.first:] {
		if turn.rank == turn.priority {
			kept = append(kept, turn)
		} else {
			moved = append(moved, turn)
		}
	}
	clear(f.items[len(kept):])
	f.items = kept
	return moved
}
