package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Shares divides the groups of a queue among those who share its lanes: tenants, say.
type Shares struct {
	// Of returns the shares to which groups belong. It is called without locks, for groups that are not known.
	Of func(groupIDs []string) []string
	// Weights says which shares get how many times as much of the lanes' time. A share that is not in it has 1.
	Weights map[string]int
}

// maxShares bounds how many shares of a queue are known: those that have groups in line or with a lane, or groups
// outside the line. Those beyond have their turns as one: each turn looks at all shares with groups in line.
const maxShares = 2 * tuning.Rows

// usedLess reports whether the share that pays for a turn has nothing else in line, and has had less of the lanes' time
// than those that have.
func (l *line) usedLess(turn *Turn) bool {
	r := turn.row
	if r == nil || r.len() > 0 {
		return false
	}
	r.charge(time.Now())
	return r.used+evenWithin < l.leastUsed(anybody)
}

// pay makes the shares of a turn and of its company pay for the lane that has it, each an equal part.
func (l *line) pay(turn *Turn) {
	shares := l.row(turn.Queue).shares
	if shares == nil {
		return
	}
	if turn.row == nil { // it was not in line
		turn.row = shares.of(turn)
	}
	together := turn.All()
	for _, u := range together {
		u.lanePart = laneParts / len(together)
		u.row.work(u.lanePart)
	}
}

// divided has for each divided queue the function that returns the shares to which groups belong.
type divided map[string]func(groupIDs []string) []string

// divide notes to which shares of their queues the groups belong.
func (d divided) divide(cs []Candidate) {
	for queue, shares := range d {
		var ids []string
		var at []int
		for i := range cs {
			if cs[i].Queue == queue {
				ids, at = append(ids, cs[i].GroupID), append(at, i)
			}
		}
		if len(ids) == 0 {
			continue
		}
		for i, share := range shares(ids) {
			cs[at[i]].share = share
		}
	}
}

// of returns the share of a group.
func (d divided) of(key groups.Key) string {
	if of := d[key.Queue]; of != nil {
		return of([]string{key.GroupID})[0]
	}
	return ""
}
