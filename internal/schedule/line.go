package schedule

import (
	"math"
	"slices"
	"time"
)

// A waitlist is served first in, first out, from a slice, without a copy per element.
type waitlist[T any] struct {
	items []T
	first int
}

func (f *waitlist[T]) len() int { return len(f.items) - f.first }

func (f *waitlist[T]) push(v T) { f.items = append(f.items, v) }

func (f *waitlist[T]) pop() (v T, ok bool) {
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

// A line is the groups that are ready, in the order of their turns: one of each queue, round and round, and those of a
// queue in the order in which they came. A queue that has had more of the lanes' time than another waits for that one:
// so no queue waits for another's backlog, nor for its long jobs. Nobody saves time up: a queue without groups in line
// has no claim to what the others use meanwhile.
type line struct {
	rows  map[string]*row // by queue
	round []*row          // those with groups, the next one first
	first *row            // goes before them, whatever it has used; or nil
	least time.Duration   // what the queue had used that had used least, when the last turn was taken
	n     int
}

// evenWithin is the lanes' time by which queues may differ and still take turns.
const evenWithin = 10 * time.Millisecond

// A row is a queue's part of the line.
type row struct {
	working int           // lanes that work the queue
	used    time.Duration // the lanes' time that it has had, up to
	at      time.Time

	fresh   waitlist[*Turn] // those of the first walk: they have their first turns before anybody has a second
	rest    waitlist[*Turn]
	over    bool // since the last walk began it has not had room for every ready group
	started bool // the first walk has ended, or has found more than the row holds
	dropped bool // a group left it since then although it has more jobs
	paused  bool // a group left it since the last look because it was paused

	probe probe
}

func (r *row) len() int { return r.fresh.len() + r.rest.len() }

// front is the part that the next turn comes from.
func (r *row) front() *waitlist[*Turn] {
	if r.fresh.len() > 0 {
		return &r.fresh
	}
	return &r.rest
}

func newLine() line { return line{rows: make(map[string]*row)} }

func (l *line) len() int { return l.n }

// row returns a queue's part, which may be empty.
func (l *line) row(queue string) *row {
	r := l.rows[queue]
	if r == nil {
		r = new(row)
		l.rows[queue] = r
	}
	return r
}

// of returns how many groups of a queue are in line.
func (l *line) of(queue string) int {
	if r := l.rows[queue]; r != nil {
		return r.len()
	}
	return 0
}

// shortest returns how many groups the shortest part has.
func (l *line) shortest() int {
	n := l.n
	for _, r := range l.rows {
		n = min(n, r.len())
	}
	return n
}

// charge adds the time of the lanes that work the queue.
func (r *row) charge(now time.Time) {
	if r.working > 0 {
		r.used += time.Duration(r.working) * now.Sub(r.at)
	}
	r.at = now
}

// queue returns the name of a row's queue, which has groups in line.
func (r *row) queue() string {
	f := r.front()
	return f.items[f.first].Queue
}

// leastUsed returns what the queue has used that has used least, of those that have groups in line and may have a lane,
// or the longest Duration.
func (l *line) leastUsed(may func(queue string) bool) time.Duration {
	now, least := time.Now(), time.Duration(math.MaxInt64)
	for _, r := range l.round {
		r.charge(now)
		if r.used < least && may(r.queue()) {
			least = r.used
		}
	}
	return least
}

// now returns what a queue has used at least that was idle until now.
func (l *line) now() time.Duration {
	if len(l.round) == 0 {
		return l.least
	}
	return l.leastUsed(func(string) bool { return true })
}

// pop takes the next turn of a queue that may have one.
func (l *line) pop(may func(queue string) bool) (*Turn, bool) {
	least := l.leastUsed(may)
	if least == math.MaxInt64 {
		return nil, false
	}
	l.least = least
	for i, r := range l.round {
		if r.used > least+evenWithin && r != l.first || !may(r.queue()) {
			r.used = max(r.used, least)
			continue
		}
		l.first = nil
		turn := l.take(r)
		if i < len(l.round) && l.round[i] == r {
			l.round = append(slices.Delete(l.round, i, i+1), r)
		}
		return turn, true
	}
	return nil, false
}

// take takes the first turn of a row that has one.
func (l *line) take(r *row) *Turn {
	turn, _ := r.front().pop()
	l.n--
	if r.len() == 0 {
		i := slices.Index(l.round, r)
		l.round = slices.Delete(l.round, i, i+1)
	}
	return turn
}

// company takes the first turn of a queue if it need not be alone, or returns nil.
func (l *line) company(queue string) *Turn {
	r := l.rows[queue]
	if r == nil || r.len() == 0 {
		return nil
	}
	if f := r.front(); f.items[f.first].alone {
		return nil
	}
	return l.take(r)
}

func (l *line) push(turn *Turn) {
	r := l.row(turn.Queue)
	if r.len() == 0 {
		if r.working == 0 {
			r.used = max(r.used, l.now())
		}
		l.round = append(l.round, r)
	}
	r.rest.push(turn)
	l.n++
}

// freshen moves the turn of a queue that was pushed last to those of the first walk.
func (l *line) freshen(queue string) *row {
	r := l.rows[queue]
	last := len(r.rest.items) - 1
	r.fresh.push(r.rest.items[last])
	r.rest.items[last] = nil
	r.rest.items = r.rest.items[:last]
	return r
}

// moveFirst moves the turn of a queue that was pushed last to the front of all.
func (l *line) moveFirst(queue string) {
	r := l.freshen(queue)
	f := &r.fresh
	last := len(f.items) - 1
	v := f.items[last]
	copy(f.items[f.first+1:], f.items[f.first:last])
	f.items[f.first] = v
	i := slices.Index(l.round, r)
	copy(l.round[1:], l.round[:i])
	l.round[0], l.first = r, r
}
