package torture

import (
	"slices"
	"time"
)

// shortLived is how long an attempt may last within one claim of another worker, one that is kept off its processor.
const shortLived = int64(time.Second)

// posthumous is how long after its process has died a claim may still begin that was sent before.
const posthumous = int64(2 * time.Second)

// checkAttempts: I6, the number of an attempt is one more than that of the one before if that failed or was lost, and the
// same if it was given back. It is higher by no more than there were faults that may have taken a claim before its handler
// began. It may be the same after a lost attempt if the server went down, for then PostgreSQL may have lost the evidence;
// and for jobs that have not failed before in queues whose batches are of one group, where the head is charged; and, rarely,
// when a claim is kept from running between reading the group's row and locking it for as long as the whole attempt lasts:
// it does not see the evidence, and covers it.
func (c *checker) checkAttempts() {
	eaters := c.eaters()
	between := func(from, to int64) int32 {
		i, _ := slices.BinarySearch(eaters, from-posthumous)
		j, _ := slices.BinarySearch(eaters, to+1)
		return int32(j - i)
	}
	lost, covered := make(map[string]int), make(map[string][]*turn)
	for job, turns := range c.byJob {
		if c.clashed(turns[0].msg) {
			continue
		}
		queue := queueOf(turns[0].group, c.batches)
		behind := queue == queueEach || queue == queueSlice // jobs may run behind the head, which is charged
		before := turn{start: c.enqueued(turns[0].msg).invoke}
		for i, t := range turns {
			if i > 0 && before.outcome != "retried" && before.outcome != "returned" {
				lost[queue]++
			}
			c.did("I6", 1)
			least := int32(1)
			switch {
			case i == 0 || before.outcome == "retried": // that was committed
			case before.outcome == "returned", behind && before.attempt == 1, c.serverWent(before.start, t.start):
				least = 0
			}
			most := least + between(before.start, t.start)
			if least == 0 {
				most++
			}
			if c.excuse(t.proc, 0, t.start) != "" { // it may have been lost before its handler began
				least = min(least, t.attempt-before.attempt)
			}
			same := t.attempt == before.attempt && (before.outcome == "" || before.outcome == "unknown")
			if least == 1 && same && before.over()-before.start < shortLived {
				least = 0
				covered[queue] = append(covered[queue], t)
			}
			if least <= 0 && same {
				c.uncounted[job]++
			}
			if more := t.attempt - before.attempt; more < least || more > most {
				c.broken("I6", t.start, t.group, []int64{job}, "attempt %d of job %d follows attempt %d (%s, %s); %d to %d more were to be expected",
					t.attempt, job, before.attempt, before.word, before.outcome, least, most)
			}
			before = *t
		}
	}
	for queue, list := range covered {
		slices.SortFunc(list, func(a, b *turn) int { return compare(a.start, b.start) })
		c.count("lost attempts that are not counted, perhaps because a stale claim covered the evidence, in queue "+queue, len(list))
		if first := list[0]; len(list) > 1+lost[queue]/500 {
			c.broken("I6", first.start, first.group, []int64{first.job},
				"%d of %d lost attempts in queue %s are not counted; the first is attempt %d of job %d", len(list), lost[queue], queue, first.attempt, first.job)
		}
	}
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
		if d.attempts < last.attempt || d.attempts > last.attempt+between(last.start, forever-1) {
			c.broken("I6", last.start, d.group, []int64{d.id}, "dead letter %d has %d attempts; the last that ran was %d", d.id, d.attempts, last.attempt)
		}
		if d.failures != min(d.attempts, 50) {
			c.broken("I6", last.start, d.group, []int64{d.id}, "dead letter %d has %d attempts and %d failures", d.id, d.attempts, d.failures)
		}
		if poison := d.do == doExit || d.do == doKill; d.do != doLetter && (!poison || d.attempts != lives) {
			c.broken("I6", last.start, d.group, []int64{d.id}, "job %d is a dead letter after %d attempts, and was not to be one", d.id, d.attempts)
		}
		c.checkPoison(&d, turns)
	}
}

// clashed reports whether there was a dead letter in a message's way: its attempts cannot be recorded then.
func (c *checker) clashed(msg int64) bool {
	e := c.sent[msg]
	return e != nil && e.how == howClash
}

// eaters returns when something happened that may have taken a claim before its handler began, in order.
func (c *checker) eaters() (at []int64) {
	for _, m := range c.marks {
		switch m.what {
		case faultKill, faultTerminate, faultRestart, faultCrash, "resumed", faultReset, faultLose, "lost", "cut", "healed", faultStop, "cont":
			at = append(at, m.at)
		case "dead":
			if proc, known := c.index[m.proc]; !known || c.deaths[proc] == m.at { // or it was killed, or ended itself, before
				at = append(at, m.at)
			}
		}
	}
	for i := range c.events {
		switch e := &c.events[i]; e.kind {
		case evTrouble, evLost, evStall, evExit:
			at = append(at, e.at)
		case evSettled:
			if e.word == "unknown" {
				at = append(at, e.at)
			}
		}
	}
	slices.Sort(at)
	return at
}

// serverWent reports whether the server went down between the two times, or was down.
func (c *checker) serverWent(from, to int64) bool {
	return slices.ContainsFunc(c.down, func(w window) bool { return w.from <= to && from <= w.until })
}
