package groups

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A gap is a stretch of a queue in which there may be jobs that the process does not know of.
type gap struct {
	group  string
	id     int64  // behind this job of that group; math.MaxInt64: behind the group
	before string // up to this group; "": to the end
}

// maxGaps bounds the time that it takes to list them.
const maxGaps = 1 << 16

// gaps lists the gaps between the groups of a queue, in order. It is nil if they are too many, if not all groups with jobs are
// known, or none of any queue. Floors are used only if they are for a connection that was made when so many lanes had been dialed.
//
// A group in line, or with a lane, is passed over: a claim looks at it anyway. Of the others, what lies under a floor is.
func (t *Turns) gaps(queue string, dialed int64) []gap {
	list := t.landmarks(queue, dialed)
	if list == nil {
		return nil
	}
	slices.SortFunc(list, func(a, b gap) int { return cmp.Compare(a.group, b.group) })
	for i := range list[1:] {
		list[i].before = list[i+1].group
	}
	// Of the last group what is behind its job, and then the groups behind it: nothing comes between an id and the same with \x01.
	last := &list[len(list)-1]
	last.before = last.group + "\x01"
	return append(list, gap{group: last.group, id: math.MaxInt64})
}

// landmarks returns where the gaps begin, in any order.
func (t *Turns) landmarks(queue string, dialed int64) []gap {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := len(t.known) + len(t.floors.marks) + len(t.floors.old)
	if !t.roomy || !t.started || known == 0 || len(t.known) > maxGaps {
		return nil
	}
	list := []gap{{}}
	for key, turn := range t.known {
		if key.Queue == queue && turn.claimable() {
			list = append(list, gap{group: key.GroupID, id: math.MaxInt64})
		}
	}
	for key, floor := range t.floors.all() {
		if turn := t.known[key]; turn != nil && turn.claimable() {
			continue
		}
		if key.Queue == queue && floor.learned >= dialed {
			list = append(list, gap{group: key.GroupID, id: floor.id})
		}
	}
	return list
}

// claimable reports whether a claim will look at the group before long.
func (t *Turn) claimable() bool { return t.state == inLine || t.state == withLane }

// A quickWalk looks for groups in the gaps between those that the process knows. While an old snapshot keeps dead entries, a
// walk over all groups takes seconds; a late job of an unknown group is found by one of these in between.
type quickWalk struct {
	queue  int   // where it is: index into Queues
	gaps   []gap // those to come, the first of which is where it is; the last one has no end
	dialed int64 // when the scout's connection was made
	walks  bool  // it is made: walks over all groups are slow, and the gaps are not too many
	news   int
	took   time.Duration
	batch  time.Duration
	ended  time.Time // the last batch
}

// slowWalk is from when on a walk over all groups is not made in place of a quick one.
const slowWalk = 100 * time.Millisecond

// midway reports whether a quick walk has begun and not ended.
func (q *quickWalk) midway() bool { return q.queue > 0 || len(q.gaps) > 0 }

// nextQuick returns how long the next quick walk has to wait.
func (s *Scout) nextQuick(view View) time.Duration {
	q := &s.quick
	switch {
	case s.whole < slowWalk || !view.Roomy || !view.Started || view.Room <= 0:
		q.queue, q.gaps, q.walks = 0, nil, false
		return maxRest
	case q.midway() && view.Idle:
		return 0
	case q.midway():
		return 3*q.batch - time.Since(q.ended)
	case s.hurried:
		return view.hurry(q.took) - time.Since(q.ended)
	case view.Idle:
		return max(s.gap, q.took) - time.Since(q.ended)
	}
	return max(s.gap, s.Poll/2, 20*q.took) - time.Since(q.ended)
}

// walkQuickly makes the next batch of a quick walk.
func (s *Scout) walkQuickly(ctx context.Context, conn *pgx.Conn, limit int) error {
	q := &s.quick
	begin := time.Now()
	fresh := !q.midway()
	queue := s.Queues[q.queue]
	if len(q.gaps) == 0 {
		q.gaps = s.Turns.gaps(queue, q.dialed)
		if q.walks = q.gaps != nil; !q.walks {
			q.queue, q.ended = 0, begin.Add(maxRest) // not so soon again
			return nil
		}
	}
	if fresh {
		q.took, q.news, s.hurried = 0, 0, false
	}
	n := min(len(q.gaps)-1, walkBatch) // gaps with an end
	sql, args := candidatesAdjacentSQL, []any{queue, q.gaps[0].group, limit}
	if n > 0 {
		after, ids, before := make([]string, n), make([]int64, n), make([]string, n)
		for i, g := range q.gaps[:n] {
			after[i], ids[i], before[i] = g.group, g.id, g.before
		}
		sql, args = candidatesBetweenSQL, []any{queue, after, ids, before, limit}
	}
	news := s.news
	found, last, err := s.read(ctx, conn, s.Schema.Qualify(sql), args...)
	if err != nil {
		return fmt.Errorf("groups: look for candidates between groups: %w", err)
	}
	q.ended = time.Now()
	q.batch = q.ended.Sub(begin)
	q.took += q.batch
	q.news += s.news - news
	switch {
	case found > 0: // there may be more behind the last one
		for q.gaps[0].before != "" && q.gaps[0].before <= last {
			q.gaps = q.gaps[1:]
		}
		q.gaps[0].group, q.gaps[0].id = last, math.MaxInt64
	case n > 0:
		q.gaps = q.gaps[n:]
	default:
		q.gaps = nil
		if q.queue = (q.queue + 1) % len(s.Queues); q.queue == 0 {
			s.calm(q.news > 0)
		}
	}
	return nil
}
