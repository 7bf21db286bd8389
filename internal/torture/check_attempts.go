package torture

import (
	"slices"
	"strings"
	"time"
)

// posthumous is how long after its process has died a claim may still begin that was sent before.
const posthumous = int64(2 * time.Second)

// checkAttempts: I6, the number of an attempt is one more than that of the one before if that failed or was lost, and
// the same if it was given back. It is higher by no more than there were faults that may have taken a claim before its
// handler began. It may be the same after a lost attempt only where mayBeMissed says so.
func (c *checker) checkAttempts() {
	lost, raced := 0, make(map[lostSession]*turn)
	charged := make(map[*turn][]int64) // by the head of a batch that died: others that were charged
	for job, turns := range c.byJob {
		if c.clashed(turns[0].msg) {
			continue
		}
		before := &turn{start: c.enqueued(turns[0].msg).invoke}
		for i, t := range turns {
			c.did("I6", 1)
			uncounted := before.outcome == "returned" || before.outcome == "snoozed"
			died := i > 0 && before.outcome != "retried" && !uncounted
			least, missed := int32(1), ""
			if died {
				lost++
				missed = c.mayBeMissed(before, t)
			}
			if before.outcome == "snoozed" {
				c.count("attempts that a handler has given back", 1)
			}
			if uncounted || missed != "" {
				least = 0
			}
			most := least + c.eaten(before.start, t.start)
			if least == 0 {
				most++
			}
			if !t.recorded() && c.excuse(t.proc, 0, t.start) != "" { // it may have been lost before its handler began
				least = min(least, t.attempt-before.attempt)
			}
			if died && t.attempt == before.attempt && missed != "" {
				c.uncounted[job]++
				c.count("lost attempts that are not counted: "+missed, 1)
				if missed == missedRace {
					raced[lostSession{before.proc, before.pid}] = t
				}
			}
			if head := c.head[before]; died && head != nil && t.attempt > before.attempt {
				charged[head] = append(charged[head], job)
			}
			if more := t.attempt - before.attempt; more < least || more > most {
				c.broken("I6", t.start, t.group, []int64{job},
					"attempt %d of job %d follows attempt %d (%s, %s); %d to %d more were to be expected",
					t.attempt, job, before.attempt, before.word, before.outcome, least, most)
			}
			before = t
		}
	}
	c.checkMissed(lost, raced)
	c.checkCharged(charged)
	c.checkDead()
}

// checkDead: I6, a dead letter has the attempts that were made, and was to be one.
func (c *checker) checkDead() {
	for _, d := range c.dead {
		if c.clashed(d.msg) {
			continue
		}
		turns := c.byJob[d.id]
		c.did("I6", 1)
		last := turn{start: c.enqueued(d.msg).invoke}
		if len(turns) > 0 {
			last = *turns[len(turns)-1]
		}
		if d.attempts < last.attempt || d.attempts > last.attempt+c.eaten(last.start, forever-1) {
			c.broken("I6", last.start, d.group, []int64{d.id},
				"dead letter %d has %d attempts; the last that ran was %d", d.id, d.attempts, last.attempt)
		}
		if d.failures != min(d.attempts, 50) {
			c.broken("I6", last.start, d.group, []int64{d.id}, "dead letter %d has %d attempts and %d failures",
				d.id, d.attempts, d.failures)
		}
		if d.do != doLetter && (d.do != doKill || d.attempts != lives) {
			c.broken("I6", last.start, d.group, []int64{d.id},
				"job %d is a dead letter after %d attempts, and was not to be one", d.id, d.attempts)
		}
		c.checkPoison(&d, turns)
	}
}

// clashed reports whether there was a dead letter in a message's way: its attempts cannot be recorded then.
func (c *checker) clashed(msg int64) bool {
	e := c.sent[msg]
	return e != nil && e.how == howClash
}

// eaten counts what may have taken a claim between two times before its handler began.
func (c *checker) eaten(from, to int64) int32 {
	i, _ := slices.BinarySearch(c.eaters, from-posthumous)
	j, _ := slices.BinarySearch(c.eaters, to+1)
	return int32(j - i)
}

// readEaters finds when something happened that may have taken a claim before its handler began, in order. A handler
// that returns while a statement is under way takes the other groups of its batch along.
func (c *checker) readEaters() {
	var at []int64
	for _, t := range c.turns {
		if t.do == doInFlight && t.end != forever && acrossGroups(t.queue) {
			at = append(at, t.end)
		}
	}
	for _, m := range c.marks {
		switch m.what {
		case faultKill, faultTerminate, faultRestart, faultCrash, "resumed", faultReset, faultLose, "lost", "cut",
			"healed", faultStop, "cont":
			at = append(at, m.at)
		case "dead":
			// Or it was killed, or ended itself, before.
			if proc, known := c.index[m.proc]; !known || c.deaths[proc] == m.at {
				at = append(at, m.at)
			}
		}
	}
	for _, e := range slices.Concat(c.of[evLost], c.of[evStall], c.of[evExit]) {
		at = append(at, e.at)
	}
	for _, e := range c.of[evTrouble] {
		if !strings.Contains(e.word, "trouble with a group") { // that is refused, and nothing is lost
			at = append(at, e.at)
		}
	}
	for _, e := range c.of[evSettled] {
		if turns := c.byJob[e.job]; e.word == "unknown" && (len(turns) == 0 || !c.clashed(turns[0].msg)) {
			at = append(at, e.at)
		}
	}
	slices.Sort(at)
	c.eaters = at
}

// serverWent reports whether the server went down between the two times, or was down.
func (c *checker) serverWent(from, to int64) bool {
	return slices.ContainsFunc(c.down, func(w window) bool { return w.from <= to && from <= w.until })
}

// checkKept: I6, when a handler begins whose group is a session's, the group's row says so, and which attempt it is: it
// is counted whatever happens then. And I5: the attempt that completes a job is the last one that has begun, whichever
// has lost its session. A former holder may complete it if nobody has taken its group.
func (c *checker) checkKept() {
	for job, turns := range c.byJob {
		if !keeps(turns[0].queue) {
			continue
		}
		for _, t := range turns {
			if t.mark == 0 {
				continue
			}
			c.did("I6", 1)
			if t.mark < 0 && c.excuse(t.proc, 0, t.start) == "" &&
				c.excuse(t.proc, 0, t.start+int64(keptWithin)) == "" {
				c.broken("I6", t.start, t.group, []int64{job},
					"the handler of job %d attempt %d began, and its group's row did not say so", job, t.attempt)
			}
		}
		for i, a := range turns {
			if a.outcome != "succeeded" {
				continue
			}
			c.did("I5", 1)
			for _, b := range turns[i+1:] {
				if b.attempt > a.attempt {
					c.broken("I5", b.start, b.group, []int64{job},
						"attempt %d of job %d completed it, and attempt %d had taken its group",
						a.attempt, job, b.attempt)
				}
			}
			if a.lost < a.settled {
				c.count("jobs that were completed although their session had ended", 1)
			}
		}
	}
}
