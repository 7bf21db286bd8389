package schedule

import (
	"container/heap"
	"math/rand/v2"
	"time"

	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

// A group is in trouble while the server refuses something about it. It is left alone then, longer each time, until one
// of its jobs is finished. The trouble of a claim that comes two minutes after the last one is new: others have worked
// the group meanwhile.
//
// A claim that is missed is no evidence of that: another worker may meet the same trouble. Or the trouble has left an
// attempt of a session that is to be counted, and all claims are missed until a scout has freed the group. So a scout
// looks, as it does at any group that was missed.
//
// A notice ends the rest: who has mended the trouble enqueues, or calls RetryNow. But a group that is enqueued to all
// the time is not to be tried all the time: between two such tries there is half the rest at least. What nobody tells
// of waits for the end of the rest.

// troubleDelay is how long a group is left alone when the server has refused something about it for the nth time.
func troubleDelay(n int) time.Duration {
	return rest.Nth(n, tuning.Slow, tuning.Long)
}

// leaveAlone parks a group that is in trouble. announced says that a notice came since its claim, which may be older
// than what the notice tells of.
func (t *Turns) leaveAlone(turn *Turn, announced bool) {
	turn.troubles++
	turn.refused, turn.resting = time.Now(), true
	at := turn.refused.Add(troubleDelay(turn.troubles))
	if announced {
		at = turn.hurry(at)
	}
	t.park(turn, at)
}

// forgetTrouble forgets trouble that is long ago. It is called when a claim begins: a handler may take as long.
func (t *Turn) forgetTrouble() {
	if t.troubles > 0 && time.Since(t.refused) > 2*tuning.Long {
		t.troubles = 0
	}
}

// leftAlone reports whether the group waits because it is in trouble.
func (t *Turn) leftAlone() bool { return t.state == dueLater && t.resting }

// disturb has a group that is left alone tried soon: a notice told of it.
func (t *Turns) disturb(turn *Turn) {
	turn.at = turn.hurry(turn.at)
	heap.Fix(&t.due, turn.index)
	if turn.index == 0 {
		t.earlier.ring()
	}
}

// hurry returns when a group in trouble is tried that a notice told of, and at the given time at the latest. All
// processes hear the notice. They try at different times within a second, for each would miss the group while another
// one tries it.
func (t *Turn) hurry(latest time.Time) time.Time {
	gap := troubleDelay(t.troubles) / 2
	at := time.Now().Add(rand.N(min(gap, tuning.Wait) + 1))
	if next := t.hurried.Add(gap); next.After(at) {
		at = next
	}
	if at.After(latest) {
		return latest
	}
	t.hurried = at
	return at
}
