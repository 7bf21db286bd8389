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
