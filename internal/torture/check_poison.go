package torture

import (
	"slices"
	"time"
)

// checkPoison: I6, a job that kills its process does so as often as it may be tried, and no more; it waits before it
// kills the next one, and nobody is hit by it again meanwhile. A death that is not counted, as behind the head of a
// batch, makes nobody wait.
func (c *checker) checkPoison(d *deadLetter, turns []*turn) {
	var deaths []*turn
	ran := 0
	for _, t := range turns {
		if t.outcome != "snoozed" { // while what it needs was down
			ran++
		}
		if t.exits {
			deaths = append(deaths, t)
		}
	}
	if len(deaths) == 0 {
		return
	}
	c.count("jobs that killed their processes", 1)
	first, last := turns[0], turns[len(turns)-1]
	exact := (d.queue == queuePlain || d.queue == queueSeveral) && !c.serverWent(first.start, last.start) ||
		d.queue == queueKept || d.queue == queueKeptLimited
	if d.attempts != lives || exact && ran > lives+c.uncounted[d.id] {
		c.broken("I6", last.start, d.group, []int64{d.id},
			"job %d killed %d processes, in %d attempts that ran, and has %d; it had %d lives",
			d.id, len(deaths), ran, d.attempts, lives)
	}
	c.checkPatience(deaths)
}

// checkPatience looks at the deaths by one job, one after the other, and at who was beside it and is charged.
func (c *checker) checkPatience(deaths []*turn) {
	hit := make(map[int64]int) // by job beside it: how often
	once := 1                  // how often one may be
	for i, t := range deaths {
		again := i > 0 && t.attempt == deaths[i-1].attempt // that one was not counted, so nobody knew
		if again {
			once++
		}
		for _, b := range c.aliveAt(t.died - 1) {
			if b.proc != t.proc || b.job == t.job || b.start < t.start-int64(poisonWait) {
				continue // one that takes long
			}
			c.did("I6", 1)
			if !c.charged(b) {
				continue
			}
			hit[b.job]++
			c.count("innocents that were charged beside a job that kills", 1)
			most := once
			if mayKeep(b.queue) || mayKeep(t.queue) {
				most++ // one of them begins beside others until it was lost twice
			}
			if hit[b.job] > most {
				c.broken("I6", t.died, b.group, []int64{t.job, b.job},
					"job %d was charged %d times beside job %d, which kills", b.job, hit[b.job], t.job)
			}
		}
		if i == 0 || again {
			continue
		}
		c.did("I6", 1)
		waited := t.start - deaths[i-1].died
		c.latency["a killing job's wait"] = append(c.latency["a killing job's wait"], max(waited, 0))
		if waited < int64(poisonWait) {
			c.broken("I6", t.start, t.group, []int64{t.job},
				"job %d, which had killed %d processes, was tried again after %v instead of %v",
				t.job, i, time.Duration(waited).Round(time.Millisecond), poisonWait)
		}
	}
}

// charged reports whether an attempt that died is counted.
func (c *checker) charged(t *turn) bool {
	turns := c.byJob[t.job]
	i := slices.Index(turns, t) + 1
	return i == len(turns) || turns[i].attempt > t.attempt
}
