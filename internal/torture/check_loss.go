package torture

import (
	"slices"
	"strconv"
)

// checkLoss: I1, every message whose enqueue returned is done or a dead letter, exactly one job of it; one whose
// outcome is unknown at most one. I2: one that was rolled back never ran.
func (c *checker) checkLoss() {
	ran := make(map[int64]*turn)
	for _, t := range c.turns {
		if ran[t.msg] == nil {
			ran[t.msg] = t
		}
		if e := c.sent[t.msg]; e != nil && e.group != t.group {
			c.broken("I1", t.start, t.group, []int64{t.job},
				"job %d ran in another group than that of message %d, %d", t.job, e.n, e.group)
		}
	}
	for i := range c.enqueues {
		e := &c.enqueues[i]
		there := c.done[e.n]
		switch e.result {
		case resOK:
			c.did("I1", 1)
			other := c.replacedBy(e)
			switch {
			case other != nil && slices.Contains(c.done[other.n], e.id): // it is that one's job
			case len(there) == 0 && !slices.Contains(c.left, e.id):
				c.broken("I1", forever, e.group, []int64{e.id},
					"job %d, message %d (%s), is gone without an effect", e.id, e.n, e.how)
			case len(there) > 0 && !slices.Contains(there, e.id):
				c.broken("I1", forever, e.group, []int64{e.id}, "message %d was enqueued as job %d and done as %v",
					e.n, e.id, there)
			}
		case resUnknown:
			c.did("I1", 1)
			c.count("enqueues of unknown outcome", 1)
			if len(there) > 0 {
				c.count("enqueues of unknown outcome that are there", 1)
			}
		case resFailed:
			c.did("I2", 1)
			if t := ran[e.n]; t != nil {
				c.broken("I2", t.start, e.group, []int64{t.job},
					"job %d ran, whose enqueue (%s) had failed", t.job, e.how)
			}
			if len(there) > 0 {
				c.broken("I2", forever, e.group, nil, "message %d (%s) was done, whose enqueue had failed", e.n, e.how)
			}
		}
		if len(there) > 1 {
			c.broken("I5", forever, e.group, nil, "message %d (%s) was done %d times, as jobs %v", e.n,
				e.how, len(there), there)
		}
	}
}

// checkEffects: I5, exactly one effect of each job that is done, made by an attempt that succeeded, and none of a dead
// letter.
func (c *checker) checkEffects() {
	seen := make(map[int64]int)
	for i := range c.effects {
		e := &c.effects[i]
		c.did("I5", 1)
		if seen[e.job]++; seen[e.job] > 1 {
			c.broken("I5", c.startOf(e), e.group, []int64{e.job}, "job %d has %d effects", e.job, seen[e.job])
		}
		if _, known := c.sent[e.msg]; !known && (e.msg < children || e.msg >= probes) {
			c.broken("I5", c.startOf(e), e.group, []int64{e.job}, "job %d has an effect, and nobody sent it", e.job)
		}
		var by, later *turn
		for _, t := range c.byJob[e.job] {
			if t.attempt == e.attempt && t.word == "ok" {
				by = t
			}
		}
		for _, t := range c.byJob[e.job] {
			if by != nil && t.start > by.settled && by.outcome == "succeeded" && c.excuse(t.proc, 0, t.start) == "" {
				later = t
			}
		}
		switch {
		case by == nil:
			c.broken("I5", c.startOf(e), e.group, []int64{e.job},
				"the effect of job %d is that of attempt %d, which did not succeed", e.job, e.attempt)
		case later != nil:
			c.broken("I5", later.start, e.group, []int64{e.job}, "job %d ran again when it was done", e.job)
		}
	}
	c.did("I5", 1)
	for _, s := range c.strays {
		at := int64(forever)
		if t := c.turnOf(s.job, s.attempt); t != nil {
			at = t.end
		}
		c.broken("I5", at, s.group, []int64{s.job},
			"attempt %d of job %d had failed, and what it wrote then is there: by %s", s.attempt, s.job, s.how)
	}
	for _, d := range c.dead {
		c.did("I5", 1)
		if e := c.effectOf[d.id]; e != nil {
			c.broken("I5", c.startOf(e), d.group, []int64{d.id}, "dead letter %d has an effect", d.id)
		}
	}
	for _, id := range c.left {
		if e := c.effectOf[id]; e != nil {
			c.broken("I5", c.startOf(e), e.group, []int64{id}, "job %d has an effect, and is still there", id)
		}
	}
}

// startOf returns when the attempt began that made an effect.
func (c *checker) startOf(e *effect) int64 {
	if t := c.turnOf(e.job, e.attempt); t != nil {
		return t.start
	}
	return forever
}

// checkSpawned: I5, a job that a handler enqueued in its transaction exists exactly if that handler's effect does, and
// as the job that the committed attempt enqueued.
func (c *checker) checkSpawned() {
	there := make(map[int64]int64) // by number, the job
	for msg, jobs := range c.done {
		if msg < children || msg >= probes {
			continue
		}
		if there[msg] = jobs[0]; len(jobs) > 1 {
			c.broken("I5", forever, -1, jobs, "jobs %d were all spawned as message %d", jobs, msg)
		}
	}
	done := make(map[int64]string) // by number of the child: the id that the committed attempt of the parent knows
	for _, t := range c.turns {
		if t.child == 0 {
			continue
		}
		if e := c.effectBy(t); e != nil && e.msg == t.msg && t.word == "ok" {
			done[t.child] = t.childID
		} else if done[t.child] == "" {
			done[t.child] = "none"
		}
	}
	if len(c.left) > 0 {
		return // they may be among those
	}
	for n, job := range there {
		if done[n] == "" {
			c.broken("I5", forever, -1, []int64{job},
				"job %d exists as message %d, which no attempt has spawned", job, n)
		}
	}
	for n, id := range done {
		c.did("I5", 1)
		job, exists := there[n]
		switch {
		case id == "none" && exists:
			c.broken("I5", forever, -1, []int64{job}, "job %d exists, whose parent's attempt was undone", job)
		case id != "none" && !exists:
			c.broken("I1", forever, -1, nil, "job %s does not exist, whose parent is done", id)
		case id != "none" && strconv.FormatInt(job, 10) != id:
			c.broken("I5", forever, -1, []int64{job},
				"job %d exists, and its parent's last attempt enqueued %s", job, id)
		}
	}
}
