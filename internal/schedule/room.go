package schedule

import (
	"slices"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// rooms say for how many more groups there is room in the parts of a line, and which parts have had too little.
type rooms struct {
	line    *line
	limit   int    // of each queue's row
	refills int    // refills that have been read so far
	scouted []*row // rows of the scout's queues
}

// A queueRoom is what the scout needs to know of a queue's part of the line.
type queueRoom struct {
	room    int  // for how many more groups
	roomy   bool // it has had room for all since the last walk began
	low     bool // it is half empty, or more than that
	started bool // the first walk is over
	paused  bool // a claim has found a group paused since the scout looked here last
}

// look returns the rooms of the scout's queues, the largest of them, and the refill that comes next.
func (s *rooms) look() (all []queueRoom, most int, next refill) {
	all = make([]queueRoom, len(s.scouted))
	for i, r := range s.scouted {
		p := queueRoom{room: s.limit, roomy: true}
		if r.shares != nil {
			next = s.refillOf(r, next)
		} else {
			p.room -= r.len()
			if p.room <= 0 { // nothing is looked for, until there is
				r.overflowed, r.started = true, true
			}
			p.roomy, p.low = !r.overflowed, p.room >= s.limit/2
		}
		p.started, p.paused = r.started, r.paused
		all[i], most = p, max(most, p.room)
		r.paused = false
	}
	return all, most, next
}

// walked notes that a walk over all groups of a queue has ended, and whether the line had room for every ready one.
// While it has not, a group that was worked does not go back in line for ever: it would keep out those that the walk
// has yet to reach.
func (s *rooms) walked(queue string, complete bool) {
	r := s.line.row(queue)
	r.overflowed, r.dropped, r.started = r.shares == nil && (!complete || r.dropped), false, true
}

// part returns the row that a group has its turns in: that of its share, or its queue.
func (s *rooms) part(queue, share string) *row {
	r := s.line.row(queue)
	if r.shares != nil {
		return r.shares.row(share)
	}
	return r
}

// left returns for how many more groups there is room in a part of a queue's row, beside those that are coming. All
// shares together have as much as a queue without them; each has an equal part of that, whatever the others have.
func (s *rooms) left(queue string, part *row, coming map[*row]int) int {
	r := s.line.row(queue)
	room := s.limit - r.len() - coming[r]
	if r.shares != nil {
		room = max(room, s.limit/max(len(r.shares.round), 1)-part.len()-coming[part])
	}
	return room
}

// low reports whether a part of a queue's row is half empty.
func (s *rooms) low(part *row, queue string) bool { return s.left(queue, part, nil) > part.len() }

// forPriority reports whether there is room for a group whose head has a priority.
func (s *rooms) forPriority(c Candidate) bool {
	return c.Priority > 0 && len(s.part(c.Queue, c.share).lists[c.Priority]) < maxUrgent
}

// fullLevels returns the levels that have no room for more groups in line.
func (s *rooms) fullLevels() map[level]bool {
	full := make(map[level]bool)
	for _, r := range s.scouted {
		for p := 1; p <= MaxPriority && r.shares == nil; p++ {
			if len(r.lists[p]) >= maxUrgent {
				full[level{r.name, p}] = true
			}
		}
	}
	return full
}

// refuse notes that there was no room for a group. If a walk has found it, it was the next one behind the group after.
func (s *rooms) refuse(queue string, part *row, after string) {
	l := s.line.row(queue).shares
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

// admit reports whether a share has room for a group, which is coming then, or else refuses it. w is the walk that has
// found it, behind the group after, or nil.
func (s *rooms) admit(c Candidate, coming map[*row]int, w *walk, after string) bool {
	r := s.line.row(c.Queue)
	if r.shares == nil {
		return true
	}
	part := r.shares.row(c.share)
	switch {
	case s.left(c.Queue, part, coming) > 0:
		coming[r]++
		coming[part]++
		return true
	case w == nil || w.share != part:
		s.refuse(c.Queue, part, after)
	case !w.cut:
		w.cut, w.until = true, after
	}
	return false
}

// refillOf returns the refill of one of a queue's shares if it comes before next: of those that are low, the share that
// was chosen least lately.
func (s *rooms) refillOf(queue *row, next refill) refill {
	for _, part := range queue.shares.overflowed {
		if s.low(part, queue.name) && (next.share == nil || part.refill.asked < next.asked) {
			next = part.refill
			next.queue, next.share = queue.name, part
			next.limit = min(max(2*s.left(queue.name, part, nil), leastRefill), tuning.Rows)
		}
	}
	return next
}

// refilled notes how far a refill has come; more says that there may be groups behind.
func (s *rooms) refilled(queue string, w *walk, more bool) {
	part, f := w.share, &w.share.refill
	s.refills++
	f.asked = s.refills
	switch {
	case w.cut:
		f.from = w.until
	case more:
		f.from = w.after
	case !f.whole || part.dropped:
		f.from, f.whole, part.dropped = "", true, false
	default:
		part.overflowed = false
		l := s.line.row(queue).shares
		l.overflowed = slices.DeleteFunc(l.overflowed, func(r *row) bool { return r == part })
	}
}
