package schedule

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A line is the groups that are ready, in the order of their turns: one of each queue, round and round, and those of a
// queue in the order in which they came. A queue that has had more of the lanes' time than another waits for that one:
// so no queue waits for another's backlog, nor for its long jobs. Nobody saves time up: a queue without groups in line
// gets no part later of what the others use meanwhile.
//
// A queue's shares have the turns of their queue in the same way: such a queue has a line of its own (shares.go).
type line struct {
	rows  map[string]*row // by queue, or by share
	round []*row          // those with groups, the next one first
	first *row            // that of an orphan: goes before them, whatever it has used; or nil
	least time.Duration   // the least that a row had used, when the last turn was taken
	n     int             // groups in line

	// A line of shares has these besides.
	weights    map[string]int
	overflowed []*row    // shares that have had no room for every ready group
	others     *row      // of those beyond maxShares; nil: the rows are those of queues
	swept      time.Time // when shares were let go
}

// evenWithin is the lanes' time by which queues may differ and still take turns: nobody notices it.
const evenWithin = tuning.Rest

// A row is a queue's part of the line, or a share's.
type row struct {
	name    string        // of the queue, or the share
	working int           // parts of lanes that work it
	weight  int           // by which its use is divided
	used    time.Duration // the lanes' time that it has had until at
	at      time.Time     // when used was brought up to date

	// shares has the groups of a queue that is divided among shares, instead of the lists below; or nil.
	shares *line
	// fresh are those of the first walk: they have their first turns before anybody has a second, so a group that the
	// walk reaches late does not wait for the jobs of those before it.
	fresh []*Turn
	ranks

	overflowed bool   // since the last walk began it has not had room for every ready group
	dropped    bool   // a group left it since then although it has more jobs
	started    bool   // the first walk has ended, or has found more than the row holds
	paused     bool   // a group left it since the last look because it was paused
	refill     refill // of a share that has overflowed

	probe probe // of a queue
	slots slots // of a queue
}

// laneParts is how many parts the time of a lane has. The rows that it works for at once share them.
const laneParts = 1 << 20

func (r *row) len() int {
	if r.shares != nil {
		return r.shares.n
	}
	return len(r.fresh) + len(r.lists[0]) + r.ranked
}

// lanes returns how many lanes work the row.
func (r *row) lanes() int { return r.working / laneParts }

// part returns the row itself, or that of the share which has the next turn.
func (r *row) part() *row {
	if r.shares != nil {
		return r.shares.next(anybody)
	}
	return r
}

func newLine() line { return line{rows: make(map[string]*row)} }

// row returns a queue's part, or a share's, which may be empty.
func (l *line) row(name string) *row {
	if r := l.rows[name]; r != nil {
		return r
	}
	if l.others != nil && len(l.rows) >= maxShares {
		if time.Since(l.swept) >= evenWithin {
			l.swept = time.Now()
			maps.DeleteFunc(l.rows, func(_ string, r *row) bool {
				return r.len() == 0 && r.working == 0 && !r.overflowed
			})
		}
		if len(l.rows) >= maxShares {
			return l.others
		}
	}
	r := &row{name: name, weight: max(l.weights[name], 1)}
	l.rows[name] = r
	return r
}

// of returns the row of the turn.
func (l *line) of(turn *Turn) *row {
	if l.others != nil {
		return l.row(turn.share)
	}
	return l.row(turn.Queue)
}

// charge adds the time of the lanes that work the row.
func (r *row) charge(now time.Time) {
	if r.working > 0 {
		more := time.Duration(float64(now.Sub(r.at)) * float64(r.working) / float64(laneParts*r.weight))
		if more == 0 {
			return // too short yet
		}
		r.used += more
	}
	r.at = now
}

// use adds time in which parts of a lane worked the row.
func (r *row) use(took time.Duration, parts int) {
	r.charge(time.Now())
	r.used += time.Duration(float64(took) * float64(parts) / float64(laneParts*r.weight))
}

// work changes how much of the lanes works the row.
func (r *row) work(by int) {
	now := time.Now()
	r.charge(now)
	r.at = now
	r.working += by
}

// anybody may have a lane.
func anybody(*row) bool { return true }

// leastUsed returns the least that a row has used, of those that have groups in line and may have a lane, or the
// longest Duration.
func (l *line) leastUsed(may func(*row) bool) time.Duration {
	now, least := time.Now(), time.Duration(math.MaxInt64)
	for _, r := range l.round {
		r.charge(now)
		if r.used < least && may(r) {
			least = r.used
		}
	}
	return least
}

// next returns the row that has the next turn, of those that may have a lane, or nil.
func (l *line) next(may func(*row) bool) *row {
	least := l.leastUsed(may)
	if least == math.MaxInt64 {
		return nil
	}
	l.least = least
	for _, r := range l.round {
		if (r.used <= least+evenWithin || r == l.first) && may(r) {
			return r
		}
		r.used = max(r.used, least)
	}
	return nil
}

// pop takes the next turn of a row that may have one, or returns nil.
func (l *line) pop(may func(*row) bool) *Turn {
	if r := l.next(may); r != nil {
		return l.take(r, r.part())
	}
	return nil
}

// take takes the first turn of a part of a row that has one. The next one of the row is behind all others'.
func (l *line) take(r, part *row) *Turn {
	var turn *Turn
	if r != part {
		turn = r.shares.take(part, part)
	} else {
		turn = r.pop()
	}
	l.first = nil
	l.n--
	i := slices.Index(l.round, r)
	l.round = slices.Delete(l.round, i, i+1)
	if r.len() > 0 {
		l.round = append(l.round, r)
	}
	return turn
}

// company takes the first turn of a queue if it need not be alone, or returns nil.
func (l *line) company(queue string) *Turn {
	r := l.row(queue)
	if r.len() == 0 {
		return nil
	}
	part := r.part()
	if (*part.front())[0].noCompany {
		return nil
	}
	return l.take(r, part)
}

func (l *line) push(turn *Turn) {
	r := l.of(turn)
	if r.len() == 0 {
		least := l.least // a row that was idle until now counts as having used that
		if len(l.round) > 0 {
			least = l.leastUsed(anybody)
		}
		if r.working > 0 { // it has been waiting for its own groups
			least -= 2 * evenWithin
		}
		if !turn.returned { // it was idle
			r.used = max(r.used, least)
		}
		l.round = append(l.round, r)
	}
	if r.shares != nil {
		r.shares.push(turn)
	} else {
		r.push(turn)
	}
	l.n++
	if turn.orphan || turn.returned { // its row goes before the others, too
		i := slices.Index(l.round, r)
		copy(l.round[1:], l.round[:i])
		l.round[0] = r
	}
	if turn.orphan {
		l.first = r
	}
}
