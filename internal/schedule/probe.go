package schedule

import (
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

const (
	// sickGroups is how many groups of a queue say that it is unavailable, and none that it is not, until it is probed.
	sickGroups = tuning.Few + 1
	// firstPause is the first pause between two probes: half of what its users wait for without a thought.
	firstPause = tuning.Wait / 2
	// MaxPause is the longest one. Each is twice as long as the one before.
	MaxPause = tuning.Grace
	// probeTime is how long a probe may take until the next one begins beside it: one that hangs stops no queue.
	probeTime = tuning.Long
)

// A probe is how a queue is worked whose jobs all need something that is down: by one lane at a time, one job after
// the other, with pauses between them. Groups wait in line meanwhile, and are all tried once one has had success.
type probe struct {
	said  []string  // groups that say that it is down, since one has had success; sickGroups of them at most
	open  bool      // the queue is probed
	nth   int       // how often it has begun to be probed
	turn  *Turn     // the turn of the probe that is under way, or nil
	tried int       // probes, one after the other
	at    time.Time // when the next one may begin, or when probing ended
}

// ready reports whether a lane may work the queue.
func (p *probe) ready() bool { return !time.Now().Before(p.at) }

// wait begins a pause.
func (p *probe) wait() {
	p.tried++
	p.turn, p.at = nil, time.Now().Add(rest.Nth(p.tried, firstPause, MaxPause))
}

// probed returns how a queue is probed, or nil if it has full speed.
func (l *lanes) probed(queue string) *probe {
	if l.probing == 0 {
		return nil
	}
	if r := l.line.rows[queue]; r != nil && r.probe.open {
		return &r.probe
	}
	return nil
}

// Answer says what a lane has heard of what the jobs of its turn's queue need: that it is up, because one is done, or
// that it is down. It reports whether the queue is probed now, and whether that is new. While it is, only what a probe
// has heard counts: the other turns are older.
func (t *Turns) Answer(turn *Turn, up bool) (probed, changed bool) {
	if up && t.sick.Load() == 0 {
		return false, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.line.row(turn.Queue).probe
	switch {
	case p.open && turn.probe != p.nth:
	case up:
		changed = p.open
		t.recover(p)
	case p.open && p.turn == turn:
		p.wait()
		t.earlier.ring()
	case p.open: // it took so long that there is another one
	case !slices.Contains(p.said, turn.GroupID):
		if p.said = append(p.said, turn.GroupID); len(p.said) == 1 {
			t.sick.Add(1)
		}
		if changed = len(p.said) == sickGroups; changed {
			t.open(p)
		}
	}
	return p.open, changed
}

// Unavailable returns how often in a row the handler of the turn's head has said so, as far as this process knows.
func (t *Turns) Unavailable(turn *Turn) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return turn.unavailable
}

// open begins to probe a queue. Where that has only just ended, pauses are no shorter than they were.
func (t *Turns) open(p *probe) {
	if time.Since(p.at) > MaxPause {
		p.tried = 0
	}
	p.open, p.nth = true, p.nth+1
	p.wait()
	t.lanes.probing++
	t.earlier.ring()
}

// recover gives a queue full speed.
func (t *Turns) recover(p *probe) {
	if len(p.said) > 0 {
		p.said = p.said[:0]
		t.sick.Add(-1)
	}
	if p.open {
		p.open, p.turn, p.at = false, nil, time.Now()
		t.lanes.probing--
		t.dispatch()
	}
}

// begin gives a turn to a lane.
func (t *Turns) begin(turn *Turn) {
	t.lanes.begin(turn.Queue)
	t.prepareClaim(turn)
	if p := t.lanes.probed(turn.Queue); p != nil {
		turn.probe, p.turn, p.at = p.nth, turn, time.Now().Add(probeTime)
		t.earlier.ring()
	}
}

// landed says that a lane has nothing more to do with a turn. It reports whether that was a probe without an answer:
// then the next one may begin.
func (t *Turns) landed(turn *Turn) bool {
	p := t.lanes.probed(turn.Queue)
	if p == nil || p.turn != turn {
		return false
	}
	p.turn, p.at = nil, time.Now()
	return true
}

// nextProbe lets the queues be probed whose pause is over, and returns how long it is until the next one's is, or -1.
func (t *Turns) nextProbe() time.Duration {
	next := time.Duration(-1)
	if t.lanes.probing == 0 {
		return next
	}
	for _, r := range t.line.rows {
		if wait := time.Until(r.probe.at); r.probe.open && wait > 0 && (next < 0 || wait < next) {
			next = wait
		}
	}
	t.dispatch()
	return next
}

// Probed returns the queues that are probed, sorted.
func (t *Turns) Probed() (queues []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for queue, r := range t.line.rows {
		if r.probe.open {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	return queues
}
