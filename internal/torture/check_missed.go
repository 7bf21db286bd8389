package torture

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Why a lost attempt may not be counted. PostgreSQL keeps the evidence of it, or does not: what the queue marks durably
// beforehand is always counted.
const (
	missedBehind = "behind the head of a batch, which is charged"
	missedServer = "the server went down before it had written it"
	missedLook   = "an operator had the job's row locked meanwhile"
	missedVacuum = "VACUUM took the evidence"
	missedMark   = "its mark could not be written"
	missedTold   = "its worker may have given it back, and died before it could say so, or was not told"
	missedLower  = "a lower id was committed and became the head"
	missedLease  = "the queue's lease was changed, and a session has claimed what a transaction had held"
	missedClaim  = "a session ended meanwhile, perhaps that of a claim between its two statements"
	missedRace   = "it began and died between another claim's look at its group and the lock"
	missedBusy   = missedRace + ", while the server was too busy to answer at once"
)

// shortLived is how long an attempt may last between another claim's look at its group and the lock, which follow one
// upon the other: as long as a process may be kept off its processor.
const shortLived = int64(100 * time.Millisecond)

// firstTurns is how many of the first turns of a process are marked durably, at least: as many of each lane are.
const firstTurns = 8

// markedWithin is how long after the log tells that an attempt could not be marked its handler begins.
const markedWithin = int64(time.Second)

// mayBeMissed returns why a lost attempt may not be counted by the next one of its job, or "". A job that has failed or
// was lost before is marked durably, and the first ones of a process, and all where several of a group may run.
func (c *checker) mayBeMissed(lost, next *turn) string {
	switch {
	case c.head[lost] != nil:
		return missedBehind
	case c.untold(lost, next):
		return missedTold
	case keeps(lost.queue): // the group's row tells of it
		return ""
	case lost.mark <= 0 && c.unmarkedBefore(lost):
		return missedMark
	case lost.attempt > 1 || c.firsts[lost] || lost.queue == queueSeveral:
		return ""
	case lost.queue == queueMixed:
		return missedLease
	case c.serverWent(lost.start, next.start):
		return missedServer
	case slices.ContainsFunc(c.vacuums, func(at int64) bool { return lost.start <= at && at <= next.start }):
		return missedVacuum
	case c.touched(lost.group, lost.start, next.start):
		return missedLook
	case slices.ContainsFunc(c.byGroup[lost.group], func(t *turn) bool {
		return t.job < lost.job && lost.start < t.start && t.start <= next.start
	}):
		return missedLower
	case lost.recorded():
		return ""
	}
	lasted, busy := lost.over()-lost.start, c.away(lost.start, lost.over())
	switch {
	case c.sessionEnded(lost, next):
		return missedClaim
	case lasted-busy >= shortLived:
		return ""
	case busy > 0:
		return missedBusy
	default:
		return missedRace
	}
}

// unmarkedBefore reports whether the log tells that an attempt could not be marked, just before this one began.
func (c *checker) unmarkedBefore(t *turn) bool {
	return slices.ContainsFunc(c.unmarked[t.proc], func(at int64) bool {
		return at <= t.start && t.start < at+markedWithin
	})
}

// sessionEnded reports whether something that ends sessions of workers was done to another one than the lost attempt's,
// between the end of that one's and the next attempt. A worker hears of that end later than others may claim the job.
func (c *checker) sessionEnded(lost, next *turn) bool {
	ended := lost.over()
	for _, m := range c.marks {
		if m.what == faultTerminate && c.index[m.proc] == lost.proc && m.pid == lost.pid && m.at >= lost.start {
			ended = min(ended, m.at)
		}
	}
	return slices.ContainsFunc(c.marks, func(m mark) bool {
		if m.at <= ended || m.at > next.start {
			return false
		}
		proc, known := c.index[m.proc]
		switch m.what {
		case faultTerminate:
			return known && (proc != lost.proc || lost.pid != 0 && m.pid != lost.pid)
		case faultKill, faultReset, "cut":
			return known && proc != lost.proc
		}
		return false
	})
}

// touched reports whether an operator had jobs of a group locked at some time between the two.
func (c *checker) touched(group int32, from, until int64) bool {
	name := " of " + queueOf(group) + "/" + groupID(group) + " "
	return slices.ContainsFunc(c.marks, func(m mark) bool {
		return m.what == faultOperator && from <= m.at && m.at <= until+int64(time.Second) &&
			strings.Contains(m.note+" ", name)
	})
}

// tellsWithin is how long a worker may take, at the end of a large batch, between what it commits and what it says.
const tellsWithin = int64(5 * time.Second)

// untold reports whether a worker may have given a job back without a trace of that. The handler has returned, and (a)
// it said Unavailable, and the worker died soon after or was not told, or (b) the worker lived when the next attempt
// began, and died soon after, or (c) its batch was undone.
func (c *checker) untold(lost, next *turn) bool {
	died, away := c.deaths[lost.proc], lost.word == wordAway
	switch {
	case lost.end == forever:
		return false
	case lost.outcome != "":
		return away && lost.outcome == "unknown"
	case away && died < lost.end+tellsWithin, c.undone(lost):
		return true
	}
	return next.start < died && died < next.start+tellsWithin
}

// undone reports whether another handler of the same batch may have undone what this one did, and the worker died soon
// after. A worker gives such a batch back group by group, and says so only at the end.
func (c *checker) undone(t *turn) bool {
	if t.word != "ok" || t.died > t.end+tellsWithin {
		return false
	}
	return slices.ContainsFunc(c.turns, func(by *turn) bool {
		together := acrossGroups(t.queue) && by.queue == t.queue || ofGroup(t.queue) && by.group == t.group
		return together && (by.do == doInFlight || by.do == doSwallow) && by.proc == t.proc &&
			by.outcome == "" && t.start-tellsWithin < by.end && by.end < t.died
	})
}

// A lostSession is one in which attempts died: of a batch of groups, several at once.
type lostSession struct {
	proc int32
	pid  int64
}

// checkMissed: I6, sessions whose attempts are missed by bad luck are rare. Few lost attempts may have a few of them.
func (c *checker) checkMissed(lost int, raced map[lostSession]*turn) {
	if len(raced) <= 3+lost/1000 {
		return
	}
	turns := slices.Collect(maps.Values(raced))
	first := slices.MinFunc(turns, func(a, b *turn) int { return cmp.Compare(a.start, b.start) })
	c.broken("I6", first.start, first.group, []int64{first.job},
		"of %d lost attempts those of %d sessions are not counted, and bad luck does not explain it; "+
			"the first is attempt %d of job %d",
		lost, len(raced), first.attempt, first.job)
}

// checkCharged: I6, when a batch dies, its head is charged, and no other job of it. One other may be: its next claim
// may have died before its handler began.
func (c *checker) checkCharged(charged map[*turn][]int64) {
	for head, jobs := range charged {
		c.count("jobs behind the head of a batch that died, and were charged", len(jobs))
		if len(jobs) > 1 {
			c.broken("I6", head.start, head.group, append([]int64{head.job}, jobs...),
				"the batch of job %d died, and %d jobs behind it were charged", head.job, len(jobs))
		}
	}
}

// readBatches finds which turns ran behind the head of their batch, which were the first ones of their process, and
// when one could not be marked.
func (c *checker) readBatches() {
	begun := make(map[int32]int)
	for _, t := range c.turns {
		if begun[t.proc] < firstTurns && t.queue != queueStubborn {
			begun[t.proc]++
			c.firsts[t] = true
		}
	}
	for _, e := range c.of[evTrouble] {
		if strings.Contains(e.word, "attempt not marked") {
			c.unmarked[e.proc] = append(c.unmarked[e.proc], e.at)
		}
	}
	for _, turns := range c.byGroup {
		if !ofGroup(turns[0].queue) {
			continue
		}
		var open []*turn // of one batch
		for _, t := range turns {
			open = slices.DeleteFunc(open, func(u *turn) bool {
				return u.settled < t.start || u.proc != t.proc || u.job == t.job || u.pid != t.pid &&
					t.pid != 0 && u.pid != 0
			})
			if len(open) > 0 {
				c.head[t] = open[0]
				c.did("I6", 1)
			}
			open = append(open, t)
		}
	}
}
