package lease

import "github.com/pgfifo/pgfifo/groups"

// A Request says what a claim is for: one group, or several of one queue.
type Request struct {
	groups.Key
	// N is the group's number among those of the request, from 0. The answer names it so: Held.N.
	N int
	// With are other groups of the queue, to be claimed together with this one.
	With []Request
	// Jobs is how many consecutive jobs of the group the claim may take; 0 means 1. Not together with With.
	Jobs int
	// Slot says that the queue has a limit: the claim must hold one of its slots. Without it, the jobs of such a queue
	// are paused.
	Slot bool
	// GroupSlot says that several jobs of the group may run at once: the claim must hold one of the group's slots, and
	// one of the queue's if that has a limit. It takes one job, of one group, and looks below any floor.
	GroupSlot bool
	// SuspectAllowed says that a session claims the head also if it may be what has killed its workers (Held.Suspect).
	// Without it the claim tells of such a head, and nobody has its group then. Not together with With.
	SuspectAllowed bool
	// Floor is an id up to which the jobs of the group are finished: the claim does not look at those. Only a lane
	// whose number is at most Learned uses it: see the floors of package schedule.
	Floor, Learned int64
	// Ahead is how many jobs wait in the group, as far as they were counted. A claim of one job counts them if that is
	// 1 or 0.
	Ahead int
}

// Seen is what a claim learns of a group beside its jobs.
type Seen struct {
	XID    int64 // the claim's transaction
	Oldest int64 // the oldest transaction that was in progress when the claim looked
	Ahead  int   // jobs behind the head, as far as they were counted; a hint
	Dialed int64 // lanes of this process so far
	Alone  bool  // the head is to be claimed by itself, and other groups were claimed with it
}

// A Miss says why a claim holds nothing.
type Miss int

const (
	// NoHead: somebody has the group, or it has no job that the claim looks at.
	NoHead Miss = iota
	// OverLimit: no slot of the queue was free.
	OverLimit
	// NextLocked: somebody had just locked the next job: a worker that has not begun it yet, or an operator.
	NextLocked
)

// all returns the request for each of the groups.
func (r *Request) all() []Request { return append([]Request{*r}, r.With...) }

// counts reports whether the claim counts the jobs behind the head, too.
func (r *Request) counts() bool { return r.Jobs <= 1 && len(r.With) == 0 && r.Ahead <= 1 }

// floor returns an id up to which a claim does not look at the jobs of the group, on the connection of that number.
func (r *Request) floor(dialed int64) int64 {
	if r.Learned < dialed {
		return 0
	}
	return r.Floor
}
