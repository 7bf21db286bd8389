package torture

import (
	"cmp"
	"slices"
	"time"
)

const (
	// startsWithin bounds how long a job may wait whose turn it is. It is generous: lanes are held on purpose, and the
	// machine is busy. On a slow one so many groups of a queue may be ready that a round over them takes longer. So a
	// job may wait unlucky times as long as others of its queue do meanwhile, on average. Where processes are killed
	// all the time, each new one goes over the groups in an order of its own, and few come to the end of a round: it is
	// chance who is served next, and one of thousands waits that long.
	startsWithin = int64(12 * time.Second)
	unlucky      = 8
	// nearby is how far apart jobs become ready at most that wait for the same others.
	nearby = int64(2 * time.Second)
	// settledWithin bounds how long it may take until it is recorded what became of an attempt. It is well below the
	// time that a statement takes which a handler has left behind.
	settledWithin = int64(5 * time.Second)
	// fewWaits is how many waits it takes to speak of a mean.
	fewWaits = 20
	// slowdown is how many times as long as usual jobs may wait on average that are beside a group in trouble, or
	// delayed, and slowMean and lateMean what is too short to tell.
	slowdown           = 4
	slowMean, lateMean = int64(500 * time.Millisecond), int64(time.Second)
	// startingUp is for how long jobs wait in the beginning because processes start.
	startingUp = int64(3 * time.Second)
)

// A wait is how long a job waited whose turn it was.
type wait struct {
	turn    *turn
	ready   int64
	delayed bool
	several bool // others of its group may have run
}

func (w *wait) took() int64 { return max(w.turn.start-w.ready, 0) }

// checkProgress: I12, a group that has no trouble is worked on in time, whatever trouble others have; a delayed job
// starts when it is due; and a lane is free for the next job soon after its handler has returned.
func (c *checker) checkProgress() {
	waits := c.waits()
	var beside, delayed, usual []*wait
	for i := range waits {
		w := &waits[i]
		c.did("I12", 1)
		what := "start after the job's turn has come"
		if w.delayed {
			what = "start after the job was due"
		}
		if w.several {
			what += ", of several at once"
		}
		c.latency[what] = append(c.latency[what], w.took())
		if waited := c.waited(w); waited > startsWithin && waited > unlucky*c.meanwhile(waits, w) {
			c.broken("I12", w.ready+startsWithin, w.turn.group, []int64{w.turn.job},
				"job %d might have begun %v before it did",
				w.turn.job, time.Duration(w.took()).Round(time.Millisecond))
		}
		in := func(t window) bool { return t.from <= w.turn.start && w.turn.start <= t.until }
		switch {
		case w.several: // room that another process leaves is found later
		case slices.ContainsFunc(c.trouble, in):
			if w.turn.start > c.turns[0].start+startingUp {
				beside = append(beside, w)
			}
		case w.delayed:
			delayed = append(delayed, w)
		default:
			usual = append(usual, w)
		}
	}
	c.compare("beside a group in trouble", beside, c.mean(usual), len(usual), slowMean)
	var same int64 // what others waited that were ready at the same time
	for _, w := range delayed {
		near := slices.DeleteFunc(slices.Clone(usual), func(o *wait) bool {
			return o.turn.queue != w.turn.queue || max(o.ready-w.ready, w.ready-o.ready) > nearby
		})
		if len(near) == 0 {
			near = usual
		}
		same += c.mean(near)
	}
	c.compare("when they were due", delayed, same/int64(max(len(delayed), 1)), len(usual), lateMean)
	c.checkClashes()
	c.checkSettled()
}

// mostFutile is how often a process may try a job while that cannot be recorded. The wait before the next time is to
// grow.
const mostFutile = 15

// checkClashes: I12, a job whose end cannot be recorded is not tried again and again.
func (c *checker) checkClashes() {
	for job, turns := range c.byJob {
		if turns[0].do != doLetter || !c.clashed(turns[0].msg) {
			continue
		}
		c.did("I12", 1)
		c.count("attempts of jobs with a dead letter in the way", len(turns))
		tries := make(map[int32]int)
		for _, t := range turns {
			if tries[t.proc]++; tries[t.proc] == mostFutile+1 {
				c.broken("I12", t.start, t.group, []int64{job},
					"job %d, whose end could not be recorded, was tried more than %d times by %s", job,
					mostFutile, c.name(t.proc))
			}
		}
	}
}

// meanwhile returns how long others of its queue waited on average that waited at some time while a job did; 0 if these
// are too few to tell.
func (c *checker) meanwhile(waits []wait, w *wait) int64 {
	var others []*wait
	for i := range waits {
		o := &waits[i]
		if o.turn.queue == w.turn.queue && o.turn.group != w.turn.group &&
			w.ready < o.turn.start && o.ready < w.turn.start {
			others = append(others, o)
		}
	}
	if len(others) < fewWaits {
		return 0
	}
	return c.mean(others)
}

// waited returns how long a job waited, less the time in which nobody was at work, or its process did not get to run.
func (c *checker) waited(w *wait) int64 {
	return max(w.took()-c.away(w.ready, w.turn.start)-c.ran(w.turn.proc, w.ready, w.turn.start), 0)
}

// mean returns how long jobs waited; 0 for none.
func (c *checker) mean(list []*wait) (sum int64) {
	for _, w := range list {
		sum += c.waited(w)
	}
	return sum / int64(max(len(list), 1))
}

// compare compares the waits of some jobs with the mean of others.
func (c *checker) compare(what string, some []*wait, usual int64, others int, slack int64) {
	if len(some) < fewWaits || others < fewWaits {
		return
	}
	if is := c.mean(some); is > slowdown*usual+slack {
		t := some[0].turn
		c.broken("I12", t.start, t.group, []int64{t.job}, "%d jobs waited %v on average %s, others %v",
			len(some), time.Duration(is).Round(time.Millisecond), what, time.Duration(usual).Round(time.Millisecond))
	}
}

// waits returns how long jobs waited that were the next of their group. Of jobs that are worked one by one: others
// wait for those of their batch. Those that faults have to do with are left out: a job that was claimed before, or
// whose group had been held by somebody who did not say when he was done with it.
func (c *checker) waits() (list []wait) {
	for _, turns := range c.byGroup {
		most := 1
		if turns[0].queue == queueSeveral {
			most = severalOf
		} else if !turns[0].inTurn() {
			continue
		}
		for i, t := range turns {
			before := room(turns[max(0, i-4*most+3):i], most)
			e := c.sent[t.msg]
			if before == forever || e == nil || e.result != resOK || t.attempt > 1 || t != c.byJob[t.job][0] ||
				c.excuse(t.proc, 0, t.start) != "" {
				continue
			}
			due := e.back + e.delay
			list = append(list, wait{
				t, max(before, due), e.delay > int64(50*time.Millisecond) && due >= before, t.queue == queueSeveral,
			})
		}
	}
	slices.SortFunc(list, func(a, b wait) int { return cmp.Compare(a.turn.start, b.turn.start) })
	return list
}

// inTurn reports whether jobs of its queue are worked one by one, as soon as there is a lane.
func (t *turn) inTurn() bool { return t.queue == queuePlain || t.queue == queueKept }

// room returns since when there was room for one more beside the turns of a group, in their order, of which only so
// many may be under way, and all had started; forever, if that is not known.
func room(turns []*turn, most int) (since int64) {
	var free []int64
	for _, t := range turns {
		since = t.start
		if free = append(free, t.settled); !t.recorded() {
			free[len(free)-1] = forever
		}
	}
	if slices.Sort(free); len(free) >= most {
		since = max(since, free[len(free)-most])
	}
	return since
}

// checkSettled looks how soon it was recorded what became of attempts.
func (c *checker) checkSettled() {
	for _, t := range c.turns {
		if t.end == forever || t.settled == forever || !t.inTurn() && t.queue != queueSeveral {
			continue
		}
		c.did("I12", 1)
		took := t.settled - t.end
		c.latency["settled after the handler's end"] = append(c.latency["settled after the handler's end"],
			max(took, 0))
		if took > settledWithin && took-c.away(t.end, t.settled)-c.ran(t.proc, t.end, t.settled) > settledWithin &&
			(t.do == doInFlight || !c.caused(t)) {
			c.broken("I12", t.end+settledWithin, t.group, []int64{t.job},
				"the handler of job %d attempt %d (%s) had ended, and its lane was not free until %v later",
				t.job, t.attempt, t.do, time.Duration(took).Round(time.Millisecond))
		}
	}
}
