package fifo

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/groups"
)

// A Status is what can be seen of a group that has jobs.
type Status struct {
	Queue       string
	GroupID     string
	HeadID      int64     // the job whose turn it is
	Attempts    int       // the head's failed or lost attempts
	OldestAt    time.Time // when the head was enqueued
	DueAt       time.Time // zero: the head may run now
	Queued      int       // jobs, the running one included; at most MaxQueued are counted
	Paused      bool      // the group or its queue
	PauseReason string
	PauseJob    int64 // the job that blocks the group (BlockGroup), or 0
	Held        bool  // a worker runs the head, or somebody who changes it has it locked
	// Who holds it, read from the lock itself: PostgreSQL's session of the worker. HeldSince is the start of its
	// transaction, that is of the job. If the session is another role's, ClientAddr and HeldSince are empty, unless
	// your role is a member of that one or of pg_read_all_stats. All four are empty for a head that is locked in a
	// savepoint (by a verb in a handler's transaction, say) or by a prepared transaction: PostgreSQL does not say who.
	// In a queue with Settings.SessionLease it is the one session that holds all such groups of the worker: ending it
	// ends them all, see Terminate. HeldSince is the claim then, for everybody to see.
	PID             int
	ApplicationName string
	ClientAddr      string
	HeldSince       time.Time

	JobID int64 // the job that State, Since and Reason are about: the head, except by WhyJob
	Ahead int   // jobs of the group before that one; at most MaxQueued are counted
	State State // the one reason why it does not run, or Held
	// Since is when the job became Held, Paused or Dead; zero: not known. For Due and OverLimit it is the time from
	// which the job itself may run: a pause, or jobs before it, may have kept it for longer.
	Since       time.Time
	LastFailure *Failure // the head's last failed or lost attempt, or nil

	overLimit bool // each slot of the queue is taken,
	groupFull bool // or of the group

	queuePaused bool      // not the group alone
	headSince   time.Time // of one that is Behind: the head's Since
}

// Group returns the group's key.
func (s *Status) Group() groups.Key { return groups.Key{Queue: s.Queue, GroupID: s.GroupID} }

// MaxQueued is how many jobs of a group its Status counts at most: an exact count of a long group is slow.
const MaxQueued = 10_000

// A State is what a job is doing. If several are true, it is the first in this order.
type State int

// States of the head of a group. Groups may be asked for Held, for Paused, or for both at once.
const (
	Held       State = iota + 1 // it is running, or somebody else has it locked
	Paused                      // its group or queue is paused, or the group is blocked by a job (BlockGroup)
	BackingOff                  // it has failed, and waits: for its next attempt, or for a later Snooze or Unavailable
	Delayed                     // it is to run later: the message says so, or its handler, with Snooze or Unavailable
	OverLimit                   // it may run, but its queue or group runs as many jobs as the Settings say
	Due                         // it may run, and nobody has taken it

	// States of other jobs.

	Behind // others of its group are before it
	Dead   // it is a dead letter
)

var stateWords = words[State]{
	0: "unknown", Held: "held", Paused: "paused", BackingOff: "backing off", Delayed: "delayed",
	OverLimit: "over its limit", Due: "due", Behind: "behind", Dead: "dead",
}

func (s State) String() string { return stateWords.of(s) }

// MarshalText returns what String does, for JSON and logs.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes ("unknown" is the zero State), and returns ErrInvalidState for any other
// text.
func (s *State) UnmarshalText(text []byte) error { return stateWords.read(text, s, ErrInvalidState) }

// Groups returns the groups that have jobs, in the order of their ids: all of them, or those that are in all of the
// given states at once. For the groups whose heads fail, ask for all, and take those with Attempts. A page goes on
// behind the whole group of its After, whatever id that has.
//
// It looks at heads. It does not show a job that runs behind one: see WhyJob. There may be such a job with a
// Settings.GroupLimit, and with a SessionLease if a lower id was committed while it ran. In the second case the head is
// OverLimit: its group runs the one job that it may.
//
// It reads who holds a group from the sessions of the server that it asks. A hot standby does not have the primary's: a
// job that runs is Due there, or Held without a PID, and nothing is OverLimit.
//
// It reads one row per group and is not slowed down by long groups. To find a state it may have to pass over many
// others. It returns ErrInvalidID also for a page whose After is no Cursor, and ErrInvalidState.
func (s Scope) Groups(ctx context.Context, page Page, states ...State) (list []Status, err error) {
	for _, state := range states {
		if state != Held && state != Paused {
			return nil, fmt.Errorf("%w: %v; it can be %v or %v", ErrInvalidState, state, Held, Paused)
		}
	}
	after, err := positionOf(page.After)
	if err != nil {
		return nil, err
	}
	if page.After != "" {
		after.ID = math.MaxInt64
	}
	from, limit := s.from(after, page.limit())
	return s.groupsBehind(ctx, from, limit, states...)
}

// groupsBehind returns groups from the first job behind a position on. That job is taken for the head of its group.
func (s Scope) groupsBehind(ctx context.Context, from position, limit int, states ...State) ([]Status, error) {
	const verb = "list groups of"
	if err := s.forget(ctx, verb); err != nil {
		return nil, err
	}
	return readAll(ctx, s, verb, statement("groups"), func(r row) (g Status, err error) {
		var oldest, due, heldSince, since *time.Time
		var failure []byte
		err = r.Scan(&g.Queue, &g.GroupID, &g.HeadID, &g.Attempts, &oldest, &due, &g.Queued, &g.Paused,
			&g.PauseReason, &g.queuePaused, &g.Held, &g.PID, &g.ApplicationName, &g.ClientAddr, &heldSince, &since,
			&g.PauseJob, &failure, &g.overLimit, &g.groupFull)
		g.OldestAt, g.DueAt, g.HeldSince, g.Since = orZero(oldest), orZero(due), orZero(heldSince), orZero(since)
		g.JobID, g.State, g.LastFailure = g.HeadID, g.state(), decoded[*Failure](failure)
		return g, err
	}, from.Queue, from.GroupID, from.ID, s.queueOrNull(), s.groupOrNull(), limit, MaxQueued,
		slices.Contains(states, Held), slices.Contains(states, Paused))
}

// Cursor returns the group's place in lists, which is its head's.
func (s *Status) Cursor() string { return position{s.Group(), s.HeadID}.cursor() }
