package schedule

import (
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
// A notice ends the rest: whoever has mended the trouble enqueues, or calls RetryNow. But a group that is enqueued to
// all the time is not to be tried all the time: between two such tries there is half the rest at least. What nobody
// tells of waits for the end of the rest.

// troubleDelay is how long a group is left alone when the server has refused something about it for the nth time.
func troubleDelay(n int) time.Duration { return rest.Nth(n, tuning.Slow, tuning.Long) }

// A trouble is that of one group.
type trouble struct {
	n       int       // how many times in a row
	last    time.Time // when it was met last
	hurried time.Time // when the group was tried last because of a notice
}

// meet notes that the server has refused something, and returns until when the group is left alone. announced says
// that a notice came since the claim, which may be older than what the notice tells of.
func (t *trouble) meet(announced bool) time.Time {
	t.n++
	t.last = time.Now()
	if announced {
		return t.hurry(t.until())
	}
	return t.until()
}

func (t *trouble) until() time.Time { return t.last.Add(troubleDelay(t.n)) }

// forget forgets trouble that is long ago. It is called when a claim begins: a handler may take as long.
func (t *trouble) forget() {
	if t.n > 0 && time.Since(t.last) > 2*tuning.Long {
		t.n = 0
	}
}

// hurry returns when to try a group in trouble after a notice of it: not later than the given time. All processes hear
// the notice. They try at different times within a second, because each would miss the group while another one tries
// it.
func (t *trouble) hurry(latest time.Time) time.Time {
	gap := troubleDelay(t.n) / 2
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

// Misses count how often in a row the claim of a head was missed although nobody seems to run it: somebody who is no
// worker has locked the group's row, say. So the head is not tried all the time.
type misses struct {
	head  int64
	n     int
	until time.Time // it is left alone
}

func (m *misses) add(head int64) {
	if m.head != head {
		*m = misses{head: head}
	}
	m.n++ // a few may be chance
	m.until = time.Now().Add(rest.Nth(m.n-tuning.Few, tuning.Gap, tuning.Wait/2))
}

func (m *misses) leftAlone(head int64) bool { return m.head == head && time.Now().Before(m.until) }
