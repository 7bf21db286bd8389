package torture

import (
	"cmp"
	"slices"
	"time"
)

const (
	// headHolds is for how long some jobs of queueSeveral hold their group that have failed.
	headHolds = 2500 * time.Millisecond
	// marking is how long an attempt may take from its claim to its handler: it is marked meanwhile.
	marking = int64(time.Second)
)

// checkSeveral: I4 where several jobs of a group may run: a job starts only when all before it in its group run, or are
// gone. It has started when it is marked; the stamps of handlers may be in another order, in other processes. And I6:
// no handler begins before that.
func (c *checker) checkSeveral() {
	for group, turns := range c.byGroup {
		if turns[0].queue != queueSeveral {
			continue
		}
		var firsts []*turn // of their jobs
		for i, t := range turns {
			c.did("I4", 1)
			c.did("I6", 1)
			if t.mark < 0 && !c.unmarkedBefore(t) {
				c.broken("I6", t.start, group, []int64{t.job}, "the handler of job %d attempt %d began without a mark",
					t.job, t.attempt)
			}
			if t.mark > 0 && t == c.byJob[t.job][0] {
				firsts = append(firsts, t)
			}
			if i > 0 && turns[i-1].alive(t.start) {
				c.count("jobs that began beside the one before in their group", 1)
			}
			c.checkHeld(turns, t)
		}
		slices.SortFunc(firsts, func(a, b *turn) int { return cmp.Compare(a.mark, b.mark) })
		for i, t := range firsts {
			j := i - 1
			for j >= 0 && firsts[j].job < t.job {
				j--
			}
			switch {
			case j < 0, t.attempt > 1: // it was lost before its handler began: that attempt was marked
			case c.cameLate(firsts[j], firsts[j].msg, t.msg):
				c.count("lower ids that were committed late", 1)
			case c.eaten(firsts[j].start, t.start) > 0:
				c.count("jobs behind the next one, which a session that was lost may have given back", 1)
			default:
				c.broken("I4", t.start, group, []int64{firsts[j].job, t.job},
					"job %d started before job %d, which was there", firsts[j].job, t.job)
			}
		}
	}
}

// checkHeld looks whether a job that was to be tried again has held its group until then, unless a session was lost
// meanwhile: it may have started there before its handler began.
func (c *checker) checkHeld(turns []*turn, t *turn) {
	mine := c.byJob[t.job]
	i := slices.Index(mine, t) + 1
	if i == len(mine) || t.outcome != "retried" && t.outcome != "snoozed" || mine[i].attempt > t.attempt+1 {
		return
	}
	from, until := t.settled+marking, mine[i].start-late
	first, _ := slices.BinarySearchFunc(turns, from, func(t *turn, at int64) int { return cmp.Compare(t.start, at) })
	if from < until {
		c.count("failed jobs that held their group for long, of which several may run", 1)
	}
	for _, b := range turns[first:] {
		took := b.start - t.settled
		switch {
		case b.start >= until:
			return
		case b.job < t.job, c.eaten(b.start, mine[i].start) > 0:
		case took > marking+c.away(t.settled, b.start)+c.ran(b.proc, t.settled, b.start):
			c.broken("I4", b.start, t.group, []int64{t.job, b.job},
				"job %d started %v after job %d, which was there, had failed, and before that was tried again",
				b.job, time.Duration(took).Round(time.Millisecond), t.job)
		}
	}
}
