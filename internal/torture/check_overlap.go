package torture

import (
	"cmp"
	"slices"
	"time"
)

// late is how much later than the fact the stamp of a lost lease may be: a goroutine has to be scheduled first, on a
// machine with more processes than processors.
const late = int64(200 * time.Millisecond)

// checkOverlap: I3, handlers of one group, or of one job where several of its group may run, do not overlap, from their
// start until they return, are told that the job is lost, or die with their process. Where a session was ended from the
// server's side, or the process did not get to run, they may, for as long as it may take until they are told; but what
// became of the one that had lost the job is not recorded.
func (c *checker) checkOverlap() {
	for _, turns := range c.byHolder {
		told := make(map[*turn]string)
		beside(turns, func(b *turn, open []*turn) {
			c.did("I3", 1)
			for _, a := range open {
				switch why := c.mayOverlap(a, b); {
				case why != "":
					if told[a] != why {
						c.count("handlers that ran on beside a successor because of "+why, 1)
						told[a] = why
					}
				case a.lost < b.start+late && !a.recorded():
					c.count("successors that began less than "+time.Duration(late).String()+
						" before a handler was told", 1)
				default:
					c.broken("I3", b.start, b.group, []int64{a.job, b.job},
						"job %d attempt %d started in %s while job %d attempt %d ran in %s",
						b.job, b.attempt, c.name(b.proc), a.job, a.attempt, c.name(a.proc))
				}
			}
		})
	}
}

// beside calls f with each of the turns, and those before it that are under way when it begins.
func beside(turns []*turn, f func(b *turn, open []*turn)) {
	var open []*turn
	for _, b := range turns {
		open = slices.DeleteFunc(open, func(a *turn) bool { return !a.alive(b.start) })
		f(b, open)
		open = append(open, b)
	}
}

// mayOverlap returns why a handler may still run when another one starts, though it has lost its session, or "".
func (c *checker) mayOverlap(a, b *turn) (why string) {
	if !a.recorded() {
		why = c.excuse(a.proc, c.own(a), b.start)
		if why == "" && c.unheard(a, b.start) {
			why = "a statement without an answer"
		}
	}
	// It was b that was kept from running, between its claim and its start, and came too late.
	if why == "" && !b.recorded() {
		why = c.excuse(b.proc, c.own(b), b.start)
	}
	return why
}

// learnt is learn, with the time until the next heartbeat and the tolerance for stamps.
const learnt = int64(learn) + int64(200*time.Millisecond) + late

// checkLease: a handler that runs when its session is ended, or cut off, hears of it within the bound, unless its
// process does not get to run.
func (c *checker) checkLease() {
	for _, m := range c.marks {
		proc, known := c.index[m.proc]
		everybody := m.what == faultRestart || m.what == faultCrash
		switch m.what {
		case faultTerminate, faultReset, "cut", "cont", faultRestart, faultCrash:
		default:
			continue
		}
		if !known && !everybody {
			continue
		}
		for _, t := range c.aliveAt(m.at) {
			if !everybody && t.proc != proc || m.what == faultTerminate && !c.hit(&m, t) {
				continue
			}
			if c.unheard(t, m.at) {
				c.count("handlers that could not be told, in a statement without an answer", 1)
				continue
			}
			c.did("I3-lease", 1)
			until := t.over()
			idle := c.ran(t.proc, m.at, m.at+learnt)
			c.latency["told of "+m.what] = append(c.latency["told of "+m.what], max(until-m.at-idle, 0))
			if until > m.at+learnt+idle {
				c.broken("I3-lease", m.at+learnt, t.group, []int64{t.job},
					"%s (%s) of %s, and the handler of job %d attempt %d had not heard of it %v later",
					m.what, m.note, c.name(t.proc), t.job, t.attempt, time.Duration(min(until,
						m.at+int64(time.Minute))-m.at).Round(time.Millisecond))
			}
		}
	}
}

// checkUnread: I3-lease, a worker gives up first, also while its handler keeps rows open and no heartbeat can pass:
// before the server takes the session for silent, the handler is told, or what became of its attempt is recorded.
func (c *checker) checkUnread() {
	bound := int64(serverSilence) + late
	for _, t := range c.turns {
		if t.rows == forever {
			continue
		}
		c.did("I3-lease", 1)
		open := min(t.over(), t.read) - t.rows
		if open > unread {
			c.count("handlers that kept rows open for more than "+time.Duration(unread).String(), 1)
		}
		over := t.over()
		settled := max(over, min(t.settled, over+learnt))
		if t.died <= settled || c.causedIn(t, over-learnt, settled, openRows) {
			continue // it was lost by something else; if the server had ended the session before, I3 tells
		}
		if c.effectBy(t) != nil {
			continue // it is done, and its worker ended before it could say so
		}
		if open > bound+c.ran(t.proc, t.rows, t.rows+bound) && !t.recorded() && t.outcome != "returned" {
			c.broken("I3-lease", t.rows+bound, t.group, []int64{t.job},
				"the handler of job %d attempt %d had rows open for %v, lost its job by that, and had not heard of it",
				t.job, t.attempt, time.Duration(open).Round(time.Millisecond))
		}
	}
}

// aliveAt returns the turns that were under way.
func (c *checker) aliveAt(at int64) (turns []*turn) {
	// Turns are in the order of their starts, and none lasts longer than that.
	const longest = int64(2 * time.Minute)
	n, _ := slices.BinarySearchFunc(c.turns, at+1, func(t *turn, at int64) int { return cmp.Compare(t.start, at) })
	for i := n - 1; i >= 0 && c.turns[i].start > at-longest; i-- {
		if c.turns[i].alive(at) {
			turns = append(turns, c.turns[i])
		}
	}
	return turns
}

// checkFence: of two attempts of a group that asked for tokens, or of a job where several of its group may run, the
// later one has the higher one, and the sink took no write of an earlier one after one of a later one. The order of
// attempts is that of their starts: a token is drawn after the start, and only while the attempt's transaction is open.
// The token of a session's claim is drawn before, and a process may be kept from running between the two.
func (c *checker) checkFence() {
	tokens := make(map[int64]map[int64]int) // by holder and token: the place among its attempts
	for of, turns := range c.byHolder {
		tokens[of] = make(map[int64]int)
		var last *turn
		kept := mayKeep(turns[0].queue)
		for i, t := range turns {
			if t.token == 0 {
				continue
			}
			c.did("I3-fence", 1)
			if kept {
				i = int(t.token)
				if last != nil && t.token < last.token && c.excuse(t.proc, 0, t.start) != "" {
					c.count("handlers that began behind one of a later claim, as they were kept from running", 1)
					tokens[of][t.token] = i
					continue
				}
			}
			// The jobs of a batch share a token.
			if last != nil &&
				(t.token < last.token || t.token == last.token && (t.proc != last.proc || t.pid != last.pid && !kept)) {
				c.broken("I3-fence", t.start, t.group, []int64{last.job, t.job},
					"job %d attempt %d has token %d, and job %d attempt %d before it had %d",
					t.job, t.attempt, t.token, last.job, last.attempt, last.token)
			}
			tokens[of][t.token] = i
			last = t
		}
	}
	newest := make(map[int64]int)
	for _, w := range c.writes {
		of := holder(w.group, w.job)
		i, known := tokens[of][w.token]
		switch {
		case !known: // its worker died before it could log the token
			c.count("writes with a token that is in no log", 1)
			continue
		case !w.accepted:
			c.count("stale writes refused by the sink", 1)
			for _, t := range c.byJob[w.job] {
				if t.attempt == w.attempt && t.token == w.token && t.recorded() {
					c.broken("I3-fence", w.at, w.group, []int64{w.job},
						"the sink refused token %d of job %d attempt %d, which held the group: it ended as %s",
						w.token, w.job, w.attempt, t.outcome)
				}
			}
			continue
		}
		c.did("I3-fence", 1)
		if i < newest[of] {
			c.broken("I3-fence", w.at, w.group, []int64{w.job},
				"the sink took a write of job %d attempt %d with token %d after one of a later attempt",
				w.job, w.attempt, w.token)
		}
		newest[of] = max(newest[of], i)
	}
}

// checkLimit: I13, no more jobs of a limited queue run at once than its limit says, nor of a group than that of its
// queue.
func (c *checker) checkLimit() {
	limited := make(map[string][]*turn)
	for _, t := range c.turns {
		if queues[t.queue].settings.Limit > 0 {
			limited[t.queue] = append(limited[t.queue], t)
		}
	}
	for name, turns := range limited {
		c.count("jobs at once of the queue "+name+", at most", c.atOnce(turns, queues[name].settings.Limit))
	}
	most := 0
	for _, turns := range c.byGroup {
		if turns[0].queue == queueSeveral {
			most = max(most, c.atOnce(turns, severalOf))
		}
	}
	c.count("jobs at once of a group of the queue of several, at most", most)
}

// atOnce returns how many of the turns were under way at once, which is to be no more than a limit. Those that have
// lost their sessions count as long as I3 does not excuse them.
func (c *checker) atOnce(turns []*turn, limit int) (most int) {
	beside(turns, func(b *turn, open []*turn) {
		c.did("I13", 1)
		jobs := []int64{b.job}
		for _, a := range open {
			if c.mayOverlap(a, b) == "" && (a.recorded() || a.lost >= b.start+late) {
				jobs = append(jobs, a.job)
			}
		}
		most = max(most, len(jobs))
		if len(jobs) > limit {
			c.broken("I13", b.start, b.group, jobs, "%d jobs ran at once where the limit is %d", len(jobs), limit)
		}
	})
	return most
}
