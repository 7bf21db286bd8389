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
// (Started). So lanes join one after the other, each when the job before its own has started, until a claim finds
// nothing, or until there are as many as may run. Nobody tells of the room that other processes leave: a turn that was
// missed is tried again when a lane of the team has ended its job, when something is announced, when who runs the head
// elsewhere has ended, and after a PollInterval.
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

// Started says that a lane is about to run a job of its turn's group, after everybody can see that, whether there are
// jobs behind it, and whether it may be what has killed its workers.
func (t *Turns) Started(turn *Turn, id int64, more, suspect bool) {
	if suspect {
		t.suspects.begin(turn)
	} else if turn.suspect {
		t.suspects.leave(turn)
	}
	turn.suspect = false
	if !turn.groupSlot {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn.team == nil {
		if t.teams[turn.Key] == nil {
			t.teams[turn.Key] = new(team)
		}
		turn.team = t.teams[turn.Key]
		turn.team.lanes++
	}
	turn.head, turn.nextLocked = id, 0
	next := t.known[turn.Key]
	if next == turn {
		delete(t.known, turn.Key)
		next = nil
	}
	switch {
	case !more || turn.team.lanes >= t.lanes.groupLimit(turn.Queue):
	case next == nil:
		t.put(&Turn{Key: turn.Key, share: turn.share, head: id + 1, groupSlot: true})
	case next.full && next.nextLocked > 0: // that has met this job before it was started
		t.unlink(next)
		t.put(next)
	}
}

// leaveTeam is what Done does first with the turn of such a group: a lane leaves the team. It reports whether that was
// all, because another turn looks for the next job, or because the turn is to be tried again soon.
func (t *Turns) leaveTeam(turn *Turn, o *Outcome, again *bool) bool {
	m := turn.team
	if m != nil {
		turn.team = nil
		if m.lanes--; m.lanes == 0 {
			delete(t.teams, turn.Key)
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
	if other := t.known[turn.Key]; other != nil && other != turn && t.yield(turn, other, o, *again) {
		t.learn(turn, *o)
		other.unavailable = max(other.unavailable, turn.unavailable)
		return true
	}
	if !o.Missed || o.Over {
		return false
	}
	if m := t.teams[turn.Key]; m != nil {
		m.again = true
	}
	switch {
	case *again: // announced since the claim
		t.put(turn)
	case o.NextLocked && turn.nextLocked < tuning.Many: // a worker has started that job soon, or given it back
		turn.nextLocked++
		t.park(turn, turn.tried.Add(rest.Nth(turn.nextLocked, 2*tuning.Gap, tuning.Look)))
		turn.full = true
	default:
		return false
	}
	return true
}

// yield reports whether a turn has nothing more to do because there is another one for its group. If not, that has
// none.
func (t *Turns) yield(turn, other *Turn, o *Outcome, again bool) bool {
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
	t.unlink(other)
	delete(t.known, turn.Key)
	return false
}

// announceToTeam is announce for such a group, where it has more to do than for another one.
func (t *Turns) announceToTeam(turn *Turn, key groups.Key, id int64) bool {
	m := t.teams[key]
	switch {
	case m == nil && (turn == nil || !turn.groupSlot):
		return false
	case turn != nil && (turn.claimable() || turn.leftAlone()):
		return false
	case turn != nil && turn.state == dueLater && !turn.full && id > turn.head:
		return false
	case m != nil && m.lanes >= t.lanes.groupLimit(key.Queue):
		m.again = true
		return true
	case turn == nil:
		return false
	}
	t.unlink(turn)
	t.put(turn)
	return true
}

// offerRunning enters that the head of such a group runs. There may be room for more, and more to run: that is tried at
// once, and from then on once every PollInterval. Meanwhile the end of who runs the head is waited for.
func (t *Turns) offerRunning(turn *Turn, c Candidate) {
	recent := turn != nil && time.Since(turn.tried) < t.poll
	switch {
	case turn == nil:
		turn = t.found(c.Key, c.share)
		turn.head, turn.groupSlot = c.ID, true
		recent = time.Since(turn.tried) < t.poll
	case turn.claimable(), turn.leftAlone(), turn.state == dueLater && recent:
		return
	default:
		t.unlink(turn)
	}
	m := t.teams[c.Key]
	switch {
	case m != nil && m.lanes >= c.GroupLimit:
		m.again = true
		delete(t.known, c.Key)
	case !recent:
		t.put(turn)
	case m != nil, c.Holder == 0:
		t.park(turn, turn.tried.Add(t.poll))
		turn.full = true
	default:
		t.watch(turn, c.Holder)
	}
}

// full reports whether there is no room for the head of such a group, which nobody runs: lanes of this process have all
// of it, or that head was missed just now.
func (t *Turns) full(turn *Turn, c Candidate) bool {
	if m := t.teams[c.Key]; m != nil && m.lanes >= c.GroupLimit && c.DueIn == 0 {
		return true
	}
	if turn == nil {
		turn = t.checking[c.Key]
	}
	return turn != nil && turn.groupSlot && turn.state == heldElsewhere && turn.holder == 0 && turn.head == c.ID &&
		c.DueIn == 0 && time.Since(turn.tried) < t.poll
}
