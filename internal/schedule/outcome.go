package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/internal/lease"
)

// An Outcome is what a lane learned of a group.
type Outcome struct {
	Missed      bool          // the claim found nothing: held elsewhere, no jobs, no row, or one of the next two
	NextLocked  bool          // somebody had just locked the next job of a group that several run
	Over        bool          // there was no slot: the queue is at its limit
	Finished    int64         // the id of the job that is gone from the group, or 0
	More        bool          // there is another job behind the one that was claimed
	DueIn       time.Duration // the head may not run before this, or 0
	Paused      bool          // the group or its queue is paused: discovery finds it when it is resumed
	Unavailable bool          // its handler has said so
	Trouble     bool          // the server refuses something about the group: it rests for a while, longer each time
	NoCompany   bool          // the next claim is to be of this group only
	Untried     bool          // the head was not, because it may be what has killed its workers: see Suspects
	OneByOne    int64         // the next claims are to be of one job each, up to the one with this id; or 0
	Seen        lease.Seen    // what the claim has learned
	Priority    int           // the head's, if that is the same as before
}
