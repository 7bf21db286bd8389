package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/lease"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A Turn is a group's place among the Turns, and what the process knows of the group. A lane that has taken it owns it
// until it is given back.
type Turn struct {
	groups.Key
	share      string    // the share of the queue that it belongs to
	row        *row      // the row that it was in last, which pays for its lane
	lanePart   int       // the part of the lane that it pays for
	returned   bool      // it goes back to where it was in line
	swapped    time.Time // when a lane got it that was not done with the turn before; or zero
	state      turnState
	probe      int       // a lane took it when its queue was probed for the nth time
	hinted     bool      // a message was announced rather than found: the group may have no row yet
	with       []*Turn   // other groups of the queue, to be claimed together with this one
	jobs       int       // how many a claim may take
	slot       bool      // a claim needs a slot, too
	groupSlot  bool      // other jobs of the group may run beside its own
	team       *team     // nil, or the one of its lane, which has run a job of the group and goes on there
	full       bool      // parked, because its claim was missed while there were jobs to run
	nextLocked int       // how often in a row its claim was missed because somebody had just locked the next job
	suspect    bool      // its head is one, as the claim before has told
	allowed    bool      // its claim may take a suspect
	tried      time.Time // when its claim was missed last
	asks       bool      // watched for want of a slot: when it is looked at, another claim of the queue may try
	noCompany  bool      // the head is not to be worked in company: it has failed before, say
	again      bool      // announced while a lane had it
	head       int64
	// priority is that of the head, as far as is known, and rank that of the list that it is in.
	priority, rank int
	fresh          bool  // found by the first walk, and not worked since
	orphan         bool  // its worker has just died, and it was not worked since
	early          bool  // it was in line with the fresh ones when a lane got it
	counted        int   // what its turn has added to its row's passed
	came           int64 // when it was put in line
	given          int64 // in which of the scout's looks a lane gave it back
	floor          floor
	safe           int64     // floors.safe when the turn began
	lowest         int64     // id that was put back or discovered while a lane had it
	putBack        int64     // the lowest of these that was put back
	finished       int64     // the last job that its claim before has finished
	at             time.Time // when it is due
	index          int       // its place in the heap of those that are due later
	holder         int64     // transaction id of another process's worker

	ahead       int   // jobs behind the head, as far as they were counted; a hint
	spent       int   // turns since it was found
	single      int64 // up to this id its jobs run one at a time, because a batch has failed; or 0
	resting     bool  // parked because it is in trouble
	trouble     trouble
	misses      misses
	unavailable int // how often in a row the head's handler has said Unavailable; other lanes of a team change it, too
}

type turnState int

const (
	inLine turnState = iota
	withLane
	dueLater
	heldElsewhere
)

// quantum is how many turns a group has before those outside the line have theirs, while its queue has more ready
// groups than the line holds. To find a group again costs a tenth of a job.
const quantum = tuning.Few

// A Batch says how much one transaction may take from a queue. Zero fields mean 1; one of them at most may be more.
type Batch struct {
	// Jobs is how many consecutive jobs of one group.
	Jobs int
	// Groups is how many groups, with the job at the head of each.
	Groups int
}

// All returns the turn, and those of the other groups that are to be claimed together with this one.
func (t *Turn) All() []*Turn { return append([]*Turn{t}, t.with...) }

// HasSlot reports whether its claim is for a slot of the queue, too.
func (t *Turn) HasSlot() bool { return t.slot }

// SuspectAllowed reports whether its claim may take a head that may be what has killed its workers.
func (t *Turn) SuspectAllowed() bool { return t.allowed }

// Request returns what is to be claimed: the groups are numbered as All has them.
func (t *Turn) Request() *lease.Request {
	r := t.request(0)
	r.Jobs, r.Slot, r.GroupSlot, r.SuspectAllowed = t.jobs, t.slot, t.groupSlot, t.allowed
	for i, other := range t.with {
		r.With = append(r.With, other.request(i+1))
	}
	return &r
}

func (t *Turn) request(n int) lease.Request {
	return lease.Request{Key: t.Key, N: n, Floor: t.floor.id, Learned: t.floor.learned, Ahead: t.ahead}
}

// leftAlone reports whether the group waits because it is in trouble.
func (t *Turn) leftAlone() bool { return t.state == dueLater && t.resting }

// claimable reports whether a claim will look at the group before long.
func (t *Turn) claimable() bool { return t.state == inLine || t.state == withLane }

// parked reports whether the group waits for the time of this job at its head, if that is known. One that is tried too
// soon waits again.
func (t *Turn) parked(id int64, dueIn time.Duration) bool {
	return t.state == dueLater && t.head == id && (dueIn == 0 || time.Now().Add(dueIn+slack).After(t.at))
}

// paid ends what line.pay has begun, for a turn that its lane gives back, when the returned function is called: a
// share whose group is in line again by then has not been idle.
func (t *Turn) paid() (end func()) {
	r, part := t.row, t.lanePart
	t.row, t.lanePart = nil, 0
	return func() {
		if part > 0 {
			r.work(-part)
		}
	}
}

// rerank notes the priority of the head, as a look has found it, if the group is in line, and reports whether it has
// changed. looks is the number of the scout's look: it may be older than what a lane has done there since.
func (t *Turn) rerank(c Candidate, looks int64) bool {
	if t.state != inLine || t.priority == c.Priority || t.given == looks || c.Holder != 0 || c.DueIn > 0 {
		return false
	}
	t.priority = c.Priority
	return true
}

// An Outcome is what a lane learned of a group.
type Outcome struct {
	Missed      bool          // the claim found nothing: held elsewhere, no jobs, no row, or one of the next two
	NextLocked  bool          // somebody had just locked the next job of a group that several run
	Over        bool          // there was no slot: the queue is at its limit
	Finished    int64         // the id of the job that is gone from the group, or 0
	More        bool          // there is another job behind the one that was claimed
	DueIn       time.Duration // the head may not run before this, or 0
	Paused      bool          // the group or its queue is paused: discovery finds it when it is resumed
	Unavailable bool          // its handler has said Unavailable
	Trouble     bool          // the server refuses something about the group: it rests for a while, longer each time
	NoCompany   bool          // the next claim is to be of this group only
	Untried     bool          // the head was not tried, because it may be what has killed its workers: see Suspects
	OneByOne    int64         // the next claims are to be of one job each, up to the one with this id; or 0
	Seen        lease.Seen    // what the claim has learned
	Priority    int           // the head's, if that is the same as before
}
