package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A Candidate is a group's head as discovery saw it.
type Candidate struct {
	groups.Key
	ID         int64
	DueIn      time.Duration
	Holder     int64 // the transaction that runs it, or less than 0 the session, or 0
	Paused     bool  // not to be claimed
	Slot       bool  // its queue has a limit
	GroupLimit int   // how many jobs of the group may run at once; 0: one, as in queues without such a limit
	Orphan     bool  // its worker has just died: it had its turn, and goes first
	Priority   int

	missing bool // it has no row
	dead    bool // the session that has it is dead
	share   string
}

// Offer adds what discovery found, and reports how many of the candidates were news.
func (t *Turns) Offer(cs []Candidate) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := 0
	reranked := make(map[*row]bool)
	for _, c := range cs {
		t.floors.found(c.Key, c.ID)
		if c.Paused {
			continue
		}
		t.lanes.setLimit(c.Queue, c.Slot, c.GroupLimit)
		turn := t.known[c.Key]
		switch {
		case c.GroupLimit > 0 && (c.Holder != 0 || t.full(turn, c)):
			t.offerRunning(turn, c)
			continue
		case turn != nil && turn.full: // it was tried just now
			continue
		case turn == nil:
			turn = t.found(c.Key, c.share)
		case turn.claimable():
			turn.lowest = min(turn.lowest, c.ID)
			if t.rank(turn, c) {
				reranked[turn.row] = true
			}
			continue
		case turn.leftAlone(), (c.DueIn > 0 || turn.suspect) && turn.parked(c.ID, c.DueIn):
			continue
		case turn.state == heldElsewhere && c.Holder == 0 && turn.misses.leftAlone(c.ID):
			continue
		default:
			t.unlink(turn)
		}
		turn.head, turn.spent, turn.priority, turn.suspect = c.ID, 0, c.Priority, false
		switch {
		case c.Holder != 0:
			turn.misses = misses{}
			t.watch(turn, c.Holder)
		case c.DueIn > 0:
			t.park(turn, time.Now().Add(c.DueIn))
		default:
			news++
			turn.fresh, turn.orphan = !t.line.row(turn.Queue).started, c.Orphan
			t.put(turn)
		}
	}
	for r := range reranked {
		r.rerank()
	}
	t.dispatch() // a queue may have no limit any more
	return news
}
