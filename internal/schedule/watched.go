package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// watched are the groups that another process holds, or whose claims were missed. The scout looks when they are free.
type watched struct {
	turns    map[*Turn]bool
	hinted   bool                 // one that was announced was added since they were looked at
	checking map[groups.Key]*Turn // those that the scout looks at now
}

// add adds a group that a transaction or a session holds; 0: it is not known who.
func (w *watched) add(turn *Turn, holder int64) {
	turn.state, turn.holder = heldElsewhere, holder
	w.hinted = w.hinted || turn.hinted
	w.turns[turn] = true
}

// found returns a turn for a group that was looked at: with what was known of it, if it was watched until then.
func (w *watched) found(key groups.Key, share string) *Turn {
	turn := &Turn{Key: key, share: share}
	if was := w.checking[key]; was != nil {
		turn.tried, turn.misses, turn.unavailable, turn.trouble = was.tried, was.misses, was.unavailable, was.trouble
		turn.single, turn.noCompany = was.single, was.noCompany
		delete(w.checking, key)
	}
	return turn
}

// holders returns the transactions that hold groups, each once, and the groups of which the holder is not known. A
// group of which several jobs may run is among these once every poll, see offerRunning.
func (w *watched) holders(poll time.Duration) (xids []int64, unknown []groups.Key) {
	w.hinted = false
	seen := make(map[int64]bool, len(w.turns))
	for turn := range w.turns {
		switch {
		case turn.holder == 0 && turn.misses.leftAlone(turn.head):
		case turn.holder == 0 || turn.groupSlot && time.Since(turn.tried) >= poll:
			unknown = append(unknown, turn.Key)
		case !seen[turn.holder]:
			seen[turn.holder] = true
			xids = append(xids, turn.holder)
		}
	}
	return xids, unknown
}

// kept returns the groups that sessions hold, and their numbers.
func (w *watched) kept() (keys []groups.Key, sessions []int64) {
	for turn := range w.turns {
		if turn.holder < 0 {
			keys, sessions = append(keys, turn.Key), append(sessions, -turn.holder)
		}
	}
	return keys, sessions
}

// by returns the groups held by the given transactions, all of them and those whose worker died.
func (w *watched) by(died map[int64]bool) (keys []groups.Key, orphans map[groups.Key]bool) {
	orphans = make(map[groups.Key]bool)
	for turn := range w.turns {
		if dead, ended := died[turn.holder]; ended && turn.holder != 0 {
			keys = append(keys, turn.Key)
			turn.tried = time.Time{} // there is room, where several jobs of the group may run
			if dead {
				orphans[turn.Key] = true
			}
		}
	}
	return keys, orphans
}
