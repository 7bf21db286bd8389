package torture

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// forever is later than everything.
const forever = math.MaxInt64

// A turn is one attempt of a job, as its worker logged it.
type turn struct {
	start   int64
	end     int64 // when its handler returned; forever: it did not
	lost    int64 // when its context was cancelled with ErrLost; forever: it was not
	told    int64 // when it was told that it takes too long; forever: it was not
	died    int64 // when its process did; forever: it did not
	settled int64 // when its worker heard what became of it; forever: it did not
	wrote   int64 // when it first had an answer of the sink; forever: never
	rows    int64 // since when it had rows open; forever: it had none
	read    int64 // until when
	bytes   int64 // how much that is
	pid     int64 // the server process, 0 if it did not get that far
	token   int64 // 0: it did not ask
	mark    int64 // the transaction that marked it before it began; -1: none did; 0: it did not look
	job     int64
	msg     int64
	child   int64 // the number of the job that it spawned, if any
	childID string
	do      string // what its handler was to do
	word    string // how its handler ended
	outcome string // what became of it
	exits   bool   // it has ended its process
	queue   string
	group   int32
	attempt int32
	proc    int32
}

// over returns when nobody had to heed the turn any more: its handler had returned, or had been told, or was dead.
func (t *turn) over() int64 { return min(t.end, t.lost, t.told, t.died) }

// alive reports whether it was under way at that time.
func (t *turn) alive(at int64) bool { return t.start <= at && at < t.over() }

// recorded reports whether the worker could commit what became of the turn. Who has lost the job cannot.
func (t *turn) recorded() bool {
	return t.outcome == "succeeded" || t.outcome == "retried" || t.outcome == "buried" || t.outcome == "snoozed"
}

// readTurns makes turns of the events. They are in the order of their starts.
func (c *checker) readTurns() {
	type key struct {
		proc    int32
		job     int64
		attempt int32 // the one before may not have been told yet
	}
	current := make(map[key]*turn)
	for i := range c.events {
		e := &c.events[i]
		k := key{e.proc, e.job, e.attempt}
		t := current[k]
		switch {
		case e.kind == evStart:
			t = &turn{
				start: e.at, end: forever, lost: forever, told: forever, died: c.deaths[e.proc], settled: forever,
				wrote: forever, rows: forever, read: forever, queue: queueOf(e.group),
				job: e.job, msg: e.arg, do: e.word, group: e.group, attempt: e.attempt, proc: e.proc,
			}
			current[k] = t
			c.turns = append(c.turns, t)
			continue
		case t == nil:
			continue
		}
		switch e.kind {
		case evTx:
			t.pid = e.arg
		case evMark:
			t.mark = e.arg
		case evFence:
			t.token = e.arg
		case evWrite:
			t.wrote = min(t.wrote, e.at)
		case evRows:
			t.rows, t.bytes = e.at, e.arg
		case evRead:
			t.read = e.at
		case evSpawn:
			t.child, t.childID = e.arg, e.word
		case evEnd:
			t.end, t.word = e.at, e.word
		case evLost:
			t.lost = e.at
		case evTold:
			t.told = e.at
		case evExit:
			t.exits = true
		case evSettled:
			// A second one is of a claim whose handler did not begin.
			if !strings.HasPrefix(e.word, "found-") && t.settled == forever {
				t.settled, t.outcome = e.at, e.word
			}
		}
	}
	for _, t := range c.turns {
		c.byGroup[t.group] = append(c.byGroup[t.group], t)
		c.byJob[t.job] = append(c.byJob[t.job], t)
		of := holder(t.group, t.job)
		c.byHolder[of] = append(c.byHolder[of], t)
		if t.died < t.start { // its process was killed, and had not ended yet
			t.died = t.start
		}
	}
}

// readDone finds which jobs are done.
func (c *checker) readDone() {
	note := func(msg, job int64) {
		if !slices.Contains(c.done[msg], job) {
			c.done[msg] = append(c.done[msg], job)
		}
	}
	for i := range c.effects {
		e := &c.effects[i]
		note(e.msg, e.job)
		if c.effectOf[e.job] == nil {
			c.effectOf[e.job] = e
		}
	}
	for _, d := range c.dead {
		note(d.msg, d.id)
	}
}

// turnOf returns the last attempt of a job with that number, or nil.
func (c *checker) turnOf(job int64, attempt int32) (found *turn) {
	for _, t := range c.byJob[job] {
		if t.attempt == attempt {
			found = t
		}
	}
	return found
}

// effectBy returns the effect that an attempt has made, or nil.
func (c *checker) effectBy(t *turn) *effect {
	if e := c.effectOf[t.job]; e != nil && e.attempt == t.attempt {
		return e
	}
	return nil
}

// readDeaths finds when each process ended: when it was killed, or ended itself, or else when that was noticed.
func (c *checker) readDeaths() {
	c.deaths = make([]int64, len(c.procs))
	for i := range c.deaths {
		c.deaths[i] = forever
	}
	c.index = make(map[string]int32)
	for i, name := range c.procs {
		c.index[name] = int32(i)
	}
	for _, e := range c.of[evExit] {
		c.deaths[e.proc] = min(c.deaths[e.proc], e.at)
	}
	for _, m := range c.marks {
		if i, ok := c.index[m.proc]; ok && (m.what == faultKill || m.what == "dead") {
			c.deaths[i] = min(c.deaths[i], m.at)
		}
	}
}

// A window is a time in which something is excused.
type window struct {
	from, until int64
	proc        int32 // -1: all
	pid         int64 // 0: all its sessions
	why         string
}

func (w *window) covers(proc int32, pid, at int64) bool {
	return w.from <= at && at <= w.until && (w.proc < 0 || w.proc == proc) && (w.pid == 0 || pid == 0 || w.pid == pid)
}

// readWindows finds when handlers may go on although their sessions have ended: for as long as it may take until they
// are told, if it was the server's side that ended the session, or the process did not get to run. For a partition
// there is no such window: the worker gives up first. But when what is sent is lost while TCP is healthy, a handler
// that is in a statement just then hears nothing, and may not be told before it has its answer.
func (c *checker) readWindows() {
	add := func(w window) {
		if w.proc < 0 {
			c.everywhere = append(c.everywhere, w)
		} else {
			c.windows[w.proc] = append(c.windows[w.proc], w)
		}
	}
	begun := make(map[string]int64) // of what lasts
	for _, m := range c.marks {
		proc, known := c.index[m.proc]
		if !known {
			proc = -1
		}
		switch m.what {
		case markSlow:
			if took, err := time.ParseDuration(m.note); err == nil {
				c.slow = append(c.slow, window{m.at - int64(took), m.at, -1, 0, m.what})
			}
		case "idle", faultOutage:
			begun[m.what] = m.at
		case "up": // a worker hears of that by its next probe
			c.unstaffed = append(c.unstaffed, window{begun[faultOutage], m.at + int64(probing), -1, 0, faultOutage})
		case "staffed":
			c.unstaffed = append(c.unstaffed, window{from: begun["idle"], until: m.at, proc: -1})
		case faultVacuum:
			c.vacuums = append(c.vacuums, m.at)
		case faultClash:
			begun[m.what] = m.at
		case "cleared":
			c.trouble = append(c.trouble, window{from: begun[faultClash], until: m.at, proc: -1})
		case faultTerminate, faultReset:
			if known {
				add(window{m.at, m.at + int64(learn), proc, m.pid, m.what})
			}
		case faultStop, faultLose:
			begun[m.what+m.proc] = m.at
		case "lost":
			add(window{begun[faultLose+m.proc], m.at + int64(learn), proc, 0, faultLose})
		case "cont":
			add(window{
				begun[faultStop+m.proc] + int64(serverSilence)/2, m.at + int64(learn), proc, 0, faultStop,
			})
			c.frozen[proc] = append(c.frozen[proc], window{from: begun[faultStop+m.proc], until: m.at})
		case "cut":
			begun[m.what+m.proc] = m.at
			if strings.HasSuffix(m.note, noteLoss) {
				begun["loss"+m.proc] = m.at
			}
		case "healed":
			if loss := begun["loss"+m.proc]; loss != 0 && loss == begun["cut"+m.proc] {
				w := window{begun["cut"+m.proc], m.at + int64(learn), proc, 0, "a statement without an answer"}
				c.deaf[proc] = append(c.deaf[proc], w)
			}
		case faultRestart, faultCrash:
			begun["down"] = m.at
		case "resumed":
			add(window{begun["down"], m.at + int64(learn), -1, 0, "server down"})
			c.down = append(c.down, window{from: begun["down"], until: m.at, proc: -1})
		}
	}
	c.gone = join(slices.Concat(c.down, c.slow, c.unstaffed))
	for _, e := range c.of[evStall] {
		add(window{e.at - e.arg, e.at + int64(learn), e.proc, 0, "stall"})
		c.frozen[e.proc] = append(c.frozen[e.proc], window{from: e.at - e.arg, until: e.at})
		c.count("stalls", 1)
	}
	for _, lists := range []map[int32][]window{c.windows, c.frozen} {
		for _, list := range lists {
			slices.SortFunc(list, func(a, b window) int { return cmp.Compare(a.from, b.from) })
		}
	}
}

// away returns for how long between the two times the server was down, or did not answer at once, or nobody was at
// work: what it was to do is as late.
func (c *checker) away(from, until int64) (sum int64) {
	i, _ := slices.BinarySearchFunc(c.gone, from, func(w window, at int64) int { return cmp.Compare(w.until, at) })
	for ; i < len(c.gone) && c.gone[i].from < until; i++ {
		sum += min(c.gone[i].until, until) - max(c.gone[i].from, from)
	}
	return sum
}

// join returns windows in order that do not overlap and cover the same.
func join(list []window) (joined []window) {
	slices.SortFunc(list, func(a, b window) int { return cmp.Compare(a.from, b.from) })
	for _, w := range list {
		if last := len(joined) - 1; last >= 0 && w.from <= joined[last].until {
			joined[last].until = max(joined[last].until, w.until)
			continue
		}
		joined = append(joined, w)
	}
	return joined
}

// longestWindow bounds how far back a window may have begun that is still open.
const longestWindow = int64(10 * freeze)

// excuse returns why a turn may still have been under way at that time although its session had ended, or "".
func (c *checker) excuse(proc int32, pid, at int64) string {
	for _, w := range c.everywhere {
		if w.covers(proc, pid, at) {
			return w.why
		}
	}
	list := c.windows[proc]
	n, _ := slices.BinarySearchFunc(list, at+1, func(w window, at int64) int { return cmp.Compare(w.from, at) })
	for i := n - 1; i >= 0 && list[i].from > at-longestWindow; i-- {
		if list[i].covers(proc, pid, at) {
			return list[i].why
		}
	}
	return ""
}

// unheard returns whether a turn was in a statement that could have no answer at that time, or soon after: before its
// worker could hear of what was done then.
func (c *checker) unheard(t *turn, at int64) bool {
	return slices.ContainsFunc(c.deaf[t.proc], func(w window) bool {
		return w.from <= at+learnt && w.covers(t.proc, t.pid, max(at, w.from)) && t.over() > w.from && t.wrote > w.from
	})
}

// ran returns how much later a process that was frozen or did not get to run may have done what was due between the two
// times.
func (c *checker) ran(proc int32, from, until int64) (later int64) {
	counted := from // a freeze may be a stall, too
	for _, w := range c.frozen[proc] {
		if w.from <= until+later && w.until > counted {
			later += w.until - max(w.from, counted)
			counted = w.until
		}
	}
	return later
}
