package torture

import (
	"slices"
	"time"
)

// releaseWithin bounds how long the next attempt of a job may take to begin that a fault has hit. It is generous: the
// lanes may have much else to do. What was measured is reported.
const releaseWithin = int64(25 * time.Second)

// dialing is how long a process may take to open its first sessions. One that is cut off then has told the server no
// bounds yet: these sessions hold nothing, and last as long as the system has them.
const dialing = int64(2 * time.Second)

// checkRelease: I7, what a fault has hit runs again elsewhere in time, and a process that is frozen, cut off or dead
// keeps nothing.
func (c *checker) checkRelease() {
	spawned, cut, killed := make(map[string]int64), make(map[string]int64), make(map[string]int64)
	for _, m := range c.marks {
		proc, known := c.index[m.proc]
		switch m.what {
		case "held":
			c.did("I7", 1)
			if m.pid > 0 {
				c.broken("I7", m.at, -1, nil,
					"%s had been frozen or cut off for %v, and %d of its sessions still held something: %s",
					m.proc, 2*freeze, m.pid, m.note)
			}
			continue
		case "gone":
			c.did("I7", 1)
			if at, was := cut[m.proc]; was && at-spawned[m.proc] < dialing {
				c.count("processes that were cut off while they dialed, and killed", 1)
				continue
			}
			took := m.at - killed[m.proc]
			c.latency["sessions gone after kill"] = append(c.latency["sessions gone after kill"], took)
			if took > int64(goneWithin) {
				c.broken("I7", m.at, -1, nil, "%v after %s was killed it still had sessions",
					time.Duration(took), m.proc)
			}
			continue
		case "spawn":
			spawned[m.proc] = m.at
			continue
		case faultKill:
			killed[m.proc] = m.at
		case "cut":
			cut[m.proc] = m.at
		case faultTerminate, faultStop, faultReset:
		case "resumed":
			known, proc = true, -1
		default:
			continue
		}
		if !known {
			continue
		}
		at := m.at
		if proc < 0 { // those that ran when the server went down
			i := slices.IndexFunc(c.down, func(w window) bool { return w.until == m.at })
			at = c.down[i].from
		}
		for _, t := range c.aliveAt(at - 1) {
			if proc >= 0 && t.proc != proc || m.what == faultTerminate && !c.hit(&m, t) {
				continue
			}
			c.released(m.what, m.at, at, t)
		}
	}
	for _, t := range c.turns {
		if t.exits {
			c.released("exit", t.died, t.died, t)
		}
	}
}

// released measures when the job of a turn was started again.
func (c *checker) released(what string, since, after int64, t *turn) {
	for _, next := range c.byJob[t.job] {
		if next.start <= after || next == t {
			continue
		}
		c.did("I7", 1)
		took := max(next.start-since, 0)
		c.latency[what] = append(c.latency[what], took)
		if took > releaseWithin && took-c.away(since, next.start) > releaseWithin {
			c.broken("I7", since+releaseWithin, t.group, []int64{t.job},
				"%s of %s: its job %d started again only %v later",
				what, c.name(t.proc), t.job, time.Duration(took).Round(time.Millisecond))
		}
		return
	}
}

// checkEnqueues: I10, an enqueue into a group that is held for long does not wait for it.
func (c *checker) checkEnqueues() {
	const bound = int64(2 * time.Second)
	for i := range c.enqueues {
		e := &c.enqueues[i]
		if e.back == 0 {
			continue
		}
		if e.how == howPlain {
			c.latency["enqueue"] = append(c.latency["enqueue"], e.back-e.invoke)
			continue
		}
		if e.how != howProbe || e.result != resOK {
			continue
		}
		c.did("I10", 1)
		c.latency["enqueue into a held group"] = append(c.latency["enqueue into a held group"], e.back-e.invoke)
		if e.back-e.invoke > bound && !c.serverWent(e.invoke, e.back) {
			c.broken("I10", e.invoke, e.group, []int64{e.id}, "the enqueue of job %d into a held group took %v",
				e.id, time.Duration(e.back-e.invoke).Round(time.Millisecond))
		}
	}
}
