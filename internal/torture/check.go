package torture

import (
	"cmp"
	"fmt"
	"slices"
)

// The invariants, by the names that reports have for them.
var invariants = []struct{ name, text string }{
	{"I1", "no enqueue that returned is lost"},
	{"I2", "nothing runs that was rolled back"},
	{"I3", "no two handlers of a group at once, or of a job where several of its group may run"},
	{"I3-lease", "a handler hears of a lost lease in time"},
	{"I3-fence", "the sink takes no write of a former holder"},
	{"I4", "commits and starts in order of ids, ids in order of enqueues"},
	{"I5", "one effect per done job, none of others; spawned jobs with their parents"},
	{"I6", "attempts are counted, each once, and none of a live worker is lost without a cause"},
	{"I7", "what a fault hit is free again in time"},
	{"I8", "all drains, and nobody holds what he does not work"},
	{"I9", "processes, transactions and sessions end as they should"},
	{"I10", "an enqueue into a held group does not wait, and none fails for its notice"},
	{"I11", "no error in the server's log that nobody asked for"},
	{"I12", "groups without trouble go on in time, delayed jobs start punctually, lanes are free soon"},
	{"I13", "no more jobs at once than the limit of a queue, or of its groups"},
	{"I14", "of two messages with one DedupID one is enqueued"},
	{"I15", "processes leave nothing behind, statements do not pile up, memory does not grow"},
}

// A checker proves the invariants of a history, or finds where they are broken.
type checker struct {
	*history
	turns      []*turn
	byGroup    map[int32][]*turn
	byJob      map[int64][]*turn
	byHolder   map[int64][]*turn // those of which one at most may be under way
	effectOf   map[int64]*effect // by job, the first
	done       map[int64][]int64 // by message, the jobs of it that are done or dead letters
	sent       map[int64]*enqueue
	twin       map[*enqueue]*enqueue // with the same DedupID
	deaths     []int64               // by process
	index      map[string]int32
	windows    map[int32][]window
	everywhere []window
	frozen     map[int32][]window
	deaf       map[int32][]window // what is sent is lost
	down       []window           // the server was
	trouble    []window           // some group was in
	unstaffed  []window           // there was no worker
	vacuums    []int64            // when evidence was taken away
	head       map[*turn]*turn    // of those that ran behind the head of their batch: that
	firsts     map[*turn]bool     // the first turns of each process
	unmarked   map[int32][]int64  // by process: when an attempt could not be marked
	slow       []window           // the server did not answer at once
	gone       []window           // down, slow and unstaffed, joined

	of     map[kind][]*event
	eaters []int64  // when something may have taken a claim before its handler began
	causes []window // when something was done that ends sessions

	uncounted map[int64]int // by job: lost attempts that were not counted, as may be

	checked  map[string]int
	counts   map[string]int
	breaches []breach
	latency  map[string][]int64
	memory   []Trend
}

// check checks everything.
func check(h *history) *checker {
	c := &checker{
		history: h, byGroup: make(map[int32][]*turn), byJob: make(map[int64][]*turn),
		byHolder: make(map[int64][]*turn), effectOf: make(map[int64]*effect), done: make(map[int64][]int64),
		sent: make(map[int64]*enqueue), twin: make(map[*enqueue]*enqueue),
		windows: make(map[int32][]window), frozen: make(map[int32][]window),
		deaf: make(map[int32][]window), uncounted: make(map[int64]int),
		head: make(map[*turn]*turn), firsts: make(map[*turn]bool),
		unmarked: make(map[int32][]int64), of: make(map[kind][]*event),
		checked: make(map[string]int), counts: make(map[string]int), latency: make(map[string][]int64),
	}
	for i := range h.events {
		e := &h.events[i]
		c.of[e.kind] = append(c.of[e.kind], e)
	}
	c.readDeaths()
	c.readTurns()
	c.readWindows()
	c.readBatches()
	c.readTwins()
	for i := range h.enqueues {
		c.sent[h.enqueues[i].n] = &h.enqueues[i]
	}
	c.readDone()
	c.readEaters()
	c.readCauses()
	c.breaches = append(c.breaches, h.breaches...)
	c.checkLoss()
	c.checkEffects()
	c.checkSpawned()
	c.checkOverlap()
	c.checkLimit()
	c.checkTwins()
	c.checkLease()
	c.checkUnread()
	c.checkFence()
	c.checkCommits()
	c.checkStarts()
	c.checkSeveral()
	c.checkKept()
	c.checkIDs()
	c.checkAttempts()
	c.checkCauses()
	c.checkRelease()
	c.checkStubborn()
	c.checkLocks()
	c.checkEnd()
	c.checkEnqueues()
	c.checkNotices()
	c.checkProgress()
	c.checkServerLog()
	c.checkSoak()
	slices.SortStableFunc(c.breaches, func(a, b breach) int { return cmp.Compare(a.at, b.at) })
	return c
}

// did counts things that were checked.
func (c *checker) did(invariant string, n int) { c.checked[invariant] += n }

// count counts something that is worth telling.
func (c *checker) count(what string, n int) { c.counts[what] += n }

// broken takes down that an invariant is broken.
func (c *checker) broken(invariant string, at int64, group int32, jobs []int64, format string, args ...any) {
	c.breaches = append(c.breaches, breach{invariant, at, group, jobs, fmt.Sprintf(format, args...)})
}

// name names a process.
func (c *checker) name(proc int32) string { return c.procs[proc] }

// startedBy returns how many jobs had been started by then.
func (c *checker) startedBy(at int64) int {
	seen := make(map[int64]bool)
	for _, t := range c.turns {
		if t.start > at {
			break
		}
		seen[t.job] = true
	}
	return len(seen)
}
