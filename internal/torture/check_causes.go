package torture

import (
	"slices"
	"time"
)

// checkCauses: I6, no attempt of a worker that lives is lost unless something was done to its session, its process or
// the server meanwhile, or its handler kept so many rows open for so long that no heartbeat passed, or returned while a
// statement was under way, or the machine was too busy for one. And what became of each attempt is known to a worker
// that has stopped as it was told.
func (c *checker) checkCauses() {
	stopped := make(map[int32]bool)
	for _, e := range c.of[evDown] {
		stopped[e.proc] = true
	}
	var first *turn
	lost := 0
	for _, t := range c.turns {
		c.did("I6", 1)
		if c.clashed(t.msg) {
			continue
		}
		if t.outcome == "" && stopped[t.proc] {
			c.broken("I6", t.start, t.group, []int64{t.job}, "%s does not know what became of attempt %d of job %d",
				c.name(t.proc), t.attempt, t.job)
		}
		if t.word == "ok" && t.do != doSwallow && (t.outcome == "retried" || t.outcome == "buried") {
			c.broken("I6", t.start, t.group, []int64{t.job},
				"the handler of job %d attempt %d (%s) returned nil, and the attempt is taken to have failed",
				t.job, t.attempt, t.do)
		}
		if t.word == wordAway && (t.outcome == "retried" || t.outcome == "buried") {
			c.broken("I6", t.start, t.group, []int64{t.job},
				"the handler of job %d attempt %d has given it back, and the attempt is counted", t.job, t.attempt)
		}
		if t.outcome != "unknown" && t.lost == forever || c.caused(t) {
			continue
		}
		if lost++; first == nil {
			first = t
		}
	}
	if lost > 0 {
		c.broken("I6", first.start, first.group, []int64{first.job},
			"%d attempts of live workers were lost, and nothing had been done to them; "+
				"the first is attempt %d of job %d in %s, after %v",
			lost, first.attempt, first.job, c.name(first.proc), time.Duration(min(first.settled,
				first.lost)-first.start).Round(time.Millisecond))
	}
}

// caused reports whether something explains the loss of an attempt. It may have been done before its handler began: the
// claim is older, and that of a batch older still.
func (c *checker) caused(t *turn) bool {
	const before = int64(freeze)
	return c.causedIn(t, t.start-before, min(t.settled, t.lost), "")
}

// causedIn reports whether something that ends an attempt's session was done between the two times, but for one cause.
func (c *checker) causedIn(t *turn, from, until int64, but string) bool {
	overlaps, own := func(w window) bool { return w.from <= until && from <= w.until }, c.own(t)
	return slices.ContainsFunc(c.down, overlaps) || slices.ContainsFunc(c.frozen[t.proc], overlaps) ||
		slices.ContainsFunc(c.causes, func(w window) bool {
			return w.why != but && overlaps(w) &&
				(w.proc < 0 || w.proc == t.proc) && (w.pid == 0 || own == 0 || w.pid == own)
		})
}

// openRows is why a session may be lost whose handler leaves more unread than heartbeats read ahead.
const openRows = "rows that are open"

// readCauses finds when something was done that ends sessions.
func (c *checker) readCauses() {
	list := slices.Clone(c.slow)
	for _, t := range c.turns {
		if t.rows != forever && t.bytes > readAhead && min(t.read, t.over())-t.rows > unread {
			list = append(list, window{t.rows + unread, min(t.read, t.over()) + late, t.proc, t.pid, openRows})
		}
		if t.do == doStubborn && t.told != forever {
			list = append(list, window{t.told, forever, t.proc, t.pid, "a handler that does not end"})
		}
		if t.do == doInFlight && t.end != forever {
			list = append(list, window{t.end, t.end + late, t.proc, t.pid, "a statement that was to be cut off"})
		}
	}
	open := make(map[string]int) // what lasts, by what ends it and the process: behind which place in list
	for _, m := range c.marks {
		proc, known := c.index[m.proc]
		if !known {
			continue // a session of a pool, say, in which no job is worked
		}
		w := window{m.at, m.at, proc, m.pid, m.what}
		switch m.what {
		case faultTerminate, faultReset:
			list = append(list, w)
		case faultStop, faultLose, "cut":
			if end := ends[m.what] + m.proc; open[end] == 0 { // or it was begun again, because nothing had happened
				w.until = forever
				list = append(list, w)
				open[end] = len(list)
			}
		case "cont", "lost", "healed":
			if n := open[m.what+m.proc]; n > 0 {
				list[n-1].until = m.at
				open[m.what+m.proc] = 0
			} else { // the process was not there yet when it was begun
				list = append(list, window{0, m.at, proc, 0, m.what})
			}
		}
	}
	c.causes = list
}

// ends are the marks that end those that last.
var ends = map[string]string{faultStop: "cont", faultLose: "lost", "cut": "healed"}
