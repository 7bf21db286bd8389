package schedule

import (
	"maps"
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// Shares divides the groups of a queue among those who share its lanes: tenants, say.
type Shares struct {
	// Of returns the shares to which groups belong. It is called without locks, for groups that are not known.
	Of func(groupIDs []string) []string
	// Weights are those of shares that are not 1: so many times as much of the lanes' time is theirs.
	Weights map[string]int
}

// sharing is what a line of shares has that one of queues has not.
type sharing struct {
	weights    map[string]int
	overflowed []*row // shares that have had no room for every ready group
	others     *row   // of those beyond maxShares
	swept      time.Time
}

// maxShares bounds how many shares of a queue are known: those that have groups in line or with a lane, or groups
// outside the line. Those beyond have their turns as one: each turn looks at all shares with groups in line.
const maxShares = 2 * tuning.Rows

// SetShares divides the groups of a queue among shares, which have its lanes by turns. Not after the first turn was
// taken.
func (t *Turns) SetShares(queue string, s Shares) {
	l := newLine()
	l.sharing = &sharing{weights: s.Weights, others: &row{weight: 1}}
	t.line.row(queue).shares = &l
	t.shares[queue] = s.Of
}

// share returns the row of a share.
func (l *line) share(name string) *row {
	r := l.rows[name]
	if r != nil {
		return r
	}
	if len(l.rows) >= maxShares && time.Since(l.swept) >= evenWithin {
		l.swept = time.Now()
		maps.DeleteFunc(l.rows, func(_ string, r *row) bool { return r.len() == 0 && r.working == 0 && !r.overflowed })
	}
	if len(l.rows) >= maxShares {
		return l.others
	}
	r = &row{name: name, weight: max(l.weights[name], 1)}
	l.rows[name] = r
	return r
}

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

// pay has the shares of a turn and of its company pay for the lane that has it, each an equal part.
func (t *Turns) pay(turn *Turn) {
	shares := t.line.row(turn.Queue).shares
	if shares == nil {
		return
	}
	if turn.row == nil { // it was not in line
		turn.row = shares.of(turn)
	}
	together := append([]*Turn{turn}, turn.with...)
	for _, u := range together {
		u.lanePart = laneParts / len(together)
		u.row.work(u.lanePart)
	}
}

// part returns the row that a group has its turns in: that of its share, or its queue.
func (t *Turns) part(queue, share string) *row {
	r := t.line.row(queue)
	if r.shares != nil {
		return r.shares.share(share)
	}
	return r
}

// room returns for how many more groups there is room in a part of a queue's row, beside those that are coming. All
// shares together have as much as a queue without them; each has an equal part of that, whatever the others have.
func (t *Turns) room(queue string, part *row, coming map[*row]int) int {
	r := t.line.row(queue)
	room := t.limit - r.len() - coming[r]
	if r.shares != nil {
		room = max(room, t.limit/max(len(r.shares.round), 1)-part.len()-coming[part])
	}
	return room
}

// low reports whether a part of a queue's row is half empty.
func (t *Turns) low(part *row, queue string) bool { return t.room(queue, part, nil) > part.len() }

// refuse enters that there was no room for a group. If a walk has found it, it was the next one behind the group after.
func (t *Turns) refuse(queue string, part *row, after string) {
	l := t.line.row(queue).shares
	switch {
	case l == nil:
	case part.overflowed:
		part.dropped = true // also from the refill that is under way, which may have passed it
	default:
		part.refill.from, part.refill.whole = after, after == ""
		l.overflowed = append(l.overflowed, part)
	}
	part.overflowed = true
}

// divide enters to which shares of their queues the groups belong.
func (t *Turns) divide(cs []Candidate) {
	for queue, shares := range t.shares {
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

// shareOf returns the share of a group.
func (t *Turns) shareOf(key groups.Key) string {
	if of := t.shares[key.Queue]; of != nil {
		return of([]string{key.GroupID})[0]
	}
	return ""
}

// admit says to which shares candidates belong, and returns those for which there is room. If a walk has found them, w
// is that.
func (t *Turns) admit(cs []Candidate, w *walk) []Candidate {
	if len(t.shares) == 0 {
		return cs
	}
	t.divide(cs)
	t.mu.Lock()
	defer t.mu.Unlock()
	coming := make(map[*row]int)
	last := ""
	if w != nil {
		last = w.after
	}
	admitted := cs[:0]
	for _, c := range cs {
		if c.Holder != 0 || c.DueIn > 0 || c.Paused || c.Orphan || t.known[c.Key] != nil ||
			t.roomFor(c.Key, c.share, c.Priority) || t.admits(c.Key, c.share, coming, w, last) {
			admitted = append(admitted, c)
		}
		if w != nil {
			last = c.GroupID
		}
	}
	return admitted
}

// admits reports whether a share has room for a group, which is coming then, or else refuses it.
func (t *Turns) admits(key groups.Key, share string, coming map[*row]int, w *walk, after string) bool {
	r := t.line.row(key.Queue)
	if r.shares == nil {
		return true
	}
	part := r.shares.share(share)
	switch {
	case t.room(key.Queue, part, coming) > 0:
		coming[r]++
		coming[part]++
		return true
	case w == nil || w.share != part:
		t.refuse(key.Queue, part, after)
	case !w.cut:
		w.cut, w.until = true, after
	}
	return false
}
