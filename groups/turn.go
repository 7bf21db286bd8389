package groups

import "time"

// A Turn is a group's place among the Turns, and what the process knows of the group. A lane that has taken it owns it
// until it is given back.
type Turn struct {
	Key
	// Hinted says that a message was announced rather than found, so that the group may have no row yet.
	Hinted bool
	// With are other groups of the queue, to be claimed together with this one.
	With []*Turn
	// Jobs is how many consecutive jobs of the group a claim may take; 0 means 1. Not together with With.
	Jobs int
	// Alone says that the head is not to be worked in company: it has failed before, say.
	Alone bool

	state   turnState
	again   bool // announced while a lane had it
	head    int64
	floor   floor
	safe    int64     // of the floors, when the turn began
	dialed  int64     // the count of dials when the turn began
	own     int64     // the transaction of its last claim,
	oldest  int64     // and the oldest one in progress then
	lowest  int64     // id that was put back or discovered while a lane had it
	entered int64     // the last job that its claim before has finished
	at      time.Time // due
	index   int       // in the heap
	holder  int64     // transaction id of another process's worker

	ahead    int   // jobs behind the head, as far as they were counted; a hint
	spent    int   // turns since it was found
	single   int64 // up to this id, one job at a time: a batch has failed
	troubles int   // since a job of it was finished
}

// A Batch says how much one transaction may take from a queue. Zero fields mean 1; one of them at most may be more.
type Batch struct {
	// Jobs is how many consecutive jobs of one group.
	Jobs int
	// Groups is how many groups, with the job at the head of each.
	Groups int
}

// OneByOne makes the claims of the group take no more than one job each, up to the one with the given id.
func (t *Turn) OneByOne(id int64) { t.single = id }
