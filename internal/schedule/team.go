package schedule

import (
	"time"

	"github.com/pgfifo/pgfifo/groups"
	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A team is the lanes of the process that work one group, in a queue of which several jobs of a group may run at once.
//
// Such a group has one turn among the others all the same, which looks for the next job to start. A lane that has
// started one keeps that turn for itself until it leaves the group, and if there is more, another one is put in line
// (joinTeam). So lanes join one after the other, each when the job before its own has started, until a claim finds
// nothing, or until there are as many as may run. Nobody tells of the room that other processes leave: a turn that was
// missed is tried again when a lane of the team has ended its job, when something is announced, when whoever runs the
// head elsewhere has ended, and after a PollInterval.
type team struct {
	lanes int
	again bool // another claim is to be made when one of them has ended its job
}

// wants reports whether a lane that has ended its job is to claim once more, and takes note that it does.
func (m *team) wants() bool {
	if m == nil || !m.again {
		return false
	}
	m.again = false
	return true
}

// joinTeam notes that a lane is about to run a job of such a group, and whether there are jobs behind it.
func (b *book) joinTeam(turn *Turn, id int64, more bool) {
	if turn.team == nil {
		if b.teams[turn.Key] == nil {
			b.teams[turn.Key] = new(team)
		}
		turn.team = b.teams[turn.Key]
		turn.team.lanes++
	}
	turn.head, turn.nextLocked = id, 0
	next := b.known[turn.Key]
	if next == turn {
		delete(b.known, turn.Key)
		next = nil
	}
	switch {
	case !more || turn.team.lanes >= b.line.row(turn.Queue).slots.groupLimit:
	case next == nil:
		b.put(&Turn{Key: turn.Key, share: turn.share, head: id + 1, groupSlot: true})
	case next.full && next.nextLocked > 0: // that has met this job before it was started
		b.unlink(next)
		b.put(next)
	}
}

// leaveTeam is what Done does first with the turn of such a group: a lane leaves the team. It reports whether that was
// all, because another turn looks for the next job, or because the turn is to be tried again soon.
func (b *book) leaveTeam(turn *Turn, o *Outcome, again *bool) bool {
	m := turn.team
	if m != nil {
		turn.team = nil
		if m.lanes--; m.lanes == 0 {
			delete(b.teams, turn.Key)
		}
		*again = !o.Missed && m.wants() || *again
	}
	switch {
	case m != nil && o.Missed: // its attempt is lost: there is room
		turn.tried = time.Time{}
	case !o.Over:
		turn.tried = time.Now()
	}
	if !o.NextLocked {
		turn.nextLocked = 0
	}
	if other := b.known[turn.Key]; other != nil && other != turn && b.yield(turn, other, o, *again) {
		b.learn(turn, *o)
		other.unavailable = max(other.unavailable, turn.unavailable)
		return true
	}
	if !o.Missed || o.Over {
		return false
	}
	if m := b.teams[turn.Key]; m != nil {
		m.again = true
	}
	switch {
	case *again: // announced since the claim
		b.put(turn)
	case o.NextLocked && turn.nextLocked < tuning.Many: // a worker will soon have started that job, or given it back
		turn.nextLocked++
		b.park(turn, turn.tried.Add(rest.Nth(turn.nextLocked, 2*tuning.Gap, tuning.Look)))
		turn.full = true
	default:
		return false
	}
	return true
}

// yield reports whether a turn has nothing more to do because there is another one for its group. If not, it drops the
// other one.
func (b *book) yield(turn, other *Turn, o *Outcome, again bool) bool {
	more := again || o.More && o.DueIn <= 0
	switch {
	case o.Over: // somebody has to ask
	case other.state == inLine:
		return true
	case other.state == withLane:
		other.again = other.again || more && !o.Missed // its claim may have found no room
		return true
	case o.Missed:
		return true
	case o.DueIn > 0, o.Trouble:
	case !more, other.state == dueLater && !other.full: // the head is not due
		return true
	}
	b.unlink(other)
	delete(b.known, turn.Key)
	return false
}

// announceToTeam is announce for such a group, where it has more to do than for another one.
func (b *book) announceToTeam(turn *Turn, key groups.Key, id int64) bool {
	m := b.teams[key]
	switch {
	case m == nil && (turn == nil || !turn.groupSlot):
		return false
	case turn != nil && (turn.claimable() || turn.leftAlone()):
		return false
	case turn != nil && turn.state == dueLater && !turn.full && id > turn.head:
		return false
	case m != nil && m.lanes >= b.line.row(key.Queue).slots.groupLimit:
		m.again = true
		return true
	case turn == nil:
		return false
	}
	b.unlink(turn)
	b.put(turn)
	return true
}

// offerRunning notes that the head of such a group runs. There may be room for more, and more to run: that is tried at
// once, and from then on once every PollInterval. Meanwhile whoever runs the head is watched.
func (b *book) offerRunning(turn *Turn, c Candidate) {
	recent := turn != nil && time.Since(turn.tried) < b.poll
	switch {
	case turn == nil:
		turn = b.watched.found(c.Key, c.share)
		turn.head, turn.groupSlot = c.ID, true
		recent = time.Since(turn.tried) < b.poll
	case turn.claimable(), turn.leftAlone(), turn.state == dueLater && recent:
		return
	default:
		b.unlink(turn)
	}
	m := b.teams[c.Key]
	switch {
	case m != nil && m.lanes >= c.GroupLimit:
		m.again = true
		delete(b.known, c.Key)
	case !recent:
		b.put(turn)
	case m != nil, c.Holder == 0:
		b.park(turn, turn.tried.Add(b.poll))
		turn.full = true
	default:
		b.watch(turn, c.Holder)
	}
}

// full reports whether there is no room for the head of such a group, which nobody runs: lanes of this process have all
// of it, or that head was missed just now.
func (b *book) full(turn *Turn, c Candidate) bool {
	if m := b.teams[c.Key]; m != nil && m.lanes >= c.GroupLimit && c.DueIn == 0 {
		return true
	}
	if turn == nil {
		turn = b.watched.checking[c.Key]
	}
	return turn != nil && turn.groupSlot && turn.state == heldElsewhere && turn.holder == 0 && turn.head == c.ID &&
		c.DueIn == 0 && time.Since(turn.tried) < b.poll
}
