package schedule

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/pgfifo/pgfifo/internal/rest"
	"github.com/pgfifo/pgfifo/internal/tuning"
)

const (
	// sickGroups is how many groups of a queue say that it is unavailable, without a success, before it is probed.
	sickGroups = tuning.Few + 1
	// firstPause is the first pause between two probes: half of what its users wait for without a thought.
	firstPause = tuning.Wait / 2
	// MaxPause is the longest one. Each is twice as long as the one before.
	MaxPause = tuning.Grace
	// probeTime is how long a probe may take until the next one begins beside it: one that hangs stops no queue.
	probeTime = tuning.Long
)

// A probe is how a queue is worked while something is down that all its jobs need: by one lane at a time, one job after
// the other, with pauses between them. Groups wait in line meanwhile, and are all tried once one has had success.
type probe struct {
	said  []string  // groups that say that it is down, since one has had success; sickGroups of them at most
	open  bool      // the queue is probed
	nth   int       // how often it has begun to be probed
	turn  *Turn     // the turn of the probe that is under way, or nil
	tried int       // how many probes in a row
	at    time.Time // when the next one may begin, or when probing ended
}

// ready reports whether a lane may work the queue.
func (p *probe) ready() bool { return !time.Now().Before(p.at) }

// wait begins a pause.
func (p *probe) wait() {
	p.tried++
	p.turn, p.at = nil, time.Now().Add(rest.Nth(p.tried, firstPause, MaxPause))
}

// probes are those of a line's queues.
type probes struct {
	line *line
	open int          // queues that are probed
	sick atomic.Int64 // queues of which some group has said that it is unavailable
}

// answer notes what Turns.Answer says, and returns what that does.
func (s *probes) answer(turn *Turn, up bool) (probed, changed bool) {
	p := &s.line.row(turn.Queue).probe
	switch {
	case p.open && turn.probe != p.nth:
	case up:
		changed = p.open
		s.recover(p)
	case p.open && p.turn == turn:
		p.wait()
	case p.open: // it took so long that there is another one
	case !slices.Contains(p.said, turn.GroupID):
		if p.said = append(p.said, turn.GroupID); len(p.said) == 1 {
			s.sick.Add(1)
		}
		if changed = len(p.said) == sickGroups; changed {
			s.begin(p)
		}
	}
	return p.open, changed
}

// begin begins to probe a queue. Where that has only just ended, pauses are no shorter than they were.
func (s *probes) begin(p *probe) {
	if time.Since(p.at) > MaxPause {
		p.tried = 0
	}
	p.open, p.nth = true, p.nth+1
	p.wait()
	s.open++
}

// recover gives a queue full speed.
func (s *probes) recover(p *probe) {
	if len(p.said) > 0 {
		p.said = p.said[:0]
		s.sick.Add(-1)
	}
	if p.open {
		p.open, p.turn, p.at = false, nil, time.Now()
		s.open--
	}
}

// take makes a turn the probe of its queue when a lane gets it, if the queue is probed, and reports whether it is.
func (s *probes) take(turn *Turn) bool {
	p := &s.line.row(turn.Queue).probe
	if p.open {
		turn.probe, p.turn, p.at = p.nth, turn, time.Now().Add(probeTime)
	}
	return p.open
}

// landed says that a lane has nothing more to do with a turn. It reports whether that was a probe without an answer:
// then the next one may begin.
func (s *probes) landed(turn *Turn) bool {
	p := &s.line.row(turn.Queue).probe
	if p.turn != turn {
		return false
	}
	p.turn, p.at = nil, time.Now()
	return true
}

// next returns how long it is until the pause of a queue that is probed is over, or -1.
func (s *probes) next() time.Duration {
	next := time.Duration(-1)
	if s.open == 0 {
		return next
	}
	for _, r := range s.line.rows {
		if wait := time.Until(r.probe.at); r.probe.open && wait > 0 && (next < 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// queues returns those that are probed, sorted.
func (s *probes) queues() (queues []string) {
	for queue, r := range s.line.rows {
		if r.probe.open {
			queues = append(queues, queue)
		}
	}
	slices.Sort(queues)
	return queues
}
