package torture

import (
	"slices"
	"strings"
	"time"
)

// idleLock is how long a group may be locked by a session that runs none of its jobs: longer than the server takes to
// notice a silent worker.
const idleLock = int64(5500 * time.Millisecond)

// foundDead is how long it may take beside that until others find that a session is dead, and have freed its group.
const foundDead = int64(4 * time.Second)

// checkLocks: I8, whoever holds a group works it. A session that holds one for long runs a handler of that group
// meanwhile; or of another one, if it is in a batch of several groups.
func (c *checker) checkLocks() {
	type key struct{ group, xid string }
	first, held := make(map[key]lockSample), make(map[string][]*turn) // by worker and group
	told := make(map[key]bool)
	busy := make(map[int64][]*turn) // by server process
	for _, t := range c.turns {
		if t.pid != 0 {
			busy[t.pid] = append(busy[t.pid], t)
		}
		if mayKeep(t.queue) {
			held[c.name(t.proc)+t.queue] = append(held[c.name(t.proc)+t.queue], t)
		}
	}
	for _, s := range c.samples {
		k := key{s.group, s.xid}
		if _, ok := first[k]; !ok {
			first[k] = s
		}
		c.did("I8", 1)
		from, until := first[k].at, s.asked // it was locked all this time, if not longer
		if until-from < idleLock || told[k] || c.serverWent(from, until) {
			continue
		}
		bound, mine := idleLock+c.away(from, until), busy[s.pid]
		if s.kept() {
			queue, _, _ := strings.Cut(s.group, "/")
			bound, mine = bound+foundDead, held[s.who+queue]
		}
		if until-from < bound {
			continue
		}
		since, worked := max(from, until-bound), false // it may have worked before
		for _, t := range mine {
			worked = worked || c.works(t, s.group) && t.start < until && max(min(t.end, t.died), c.thawed(t)) > since
		}
		if !worked {
			told[k] = true
			_, id, _ := strings.Cut(s.group, "/")
			group, err := groupOf(id)
			if err != nil {
				group = -1
			}
			c.broken("I8", from, group, nil,
				"group %s was %s for %v by session %d of %s, which ran none of its jobs",
				s.group, s.how(), time.Duration(until-from).Round(time.Millisecond), s.pid, s.who)
		}
	}
}

// works reports whether a turn is, or may be in a batch with, one of the group with that queue and id.
func (c *checker) works(t *turn, group string) bool {
	return group == t.queue+"/"+groupID(t.group) ||
		acrossGroups(t.queue) && strings.HasPrefix(group, t.queue+"/")
}

// thawed returns until when the process of a turn was frozen that was frozen when it ended.
func (c *checker) thawed(t *turn) int64 {
	for _, w := range c.frozen[t.proc] {
		if w.from <= t.over() && t.over() <= w.until {
			return w.until
		}
	}
	return 0
}

// checkEnd: I8 and I9, what is left at the end, and how processes ended.
func (c *checker) checkEnd() {
	c.did("I8", 3)
	c.did("I9", 3)
	e := c.end
	if e.Jobs > 0 {
		c.broken("I8", forever, -1, nil, "%d jobs are left", e.Jobs)
	}
	if e.Locked > 0 {
		c.broken("I8", forever, -1, nil, "%d of %d groups are locked though there are no jobs", e.Locked, e.Groups)
	}
	if e.Kept > 0 {
		c.broken("I8", forever, -1, nil, "%d groups and slots are some session's though there are no jobs", e.Kept)
	}
	for what, n := range map[string]int{
		"sessions hold something though there are no jobs": e.Holding,
		"transactions are prepared":                        e.Prepared,
		"sessions are left of workers that have stopped":   e.Sessions,
	} {
		if n > 0 {
			c.broken("I9", forever, -1, nil, "%d %s", n, what)
		}
	}
	ended := make(map[string]bool) // as they were told, or as their jobs are
	for _, ev := range slices.Concat(c.of[evExit], c.of[evDown]) {
		ended[c.name(ev.proc)] = true
	}
	for _, ev := range c.of[evAmiss] {
		c.broken("I9", ev.at, ev.group, []int64{ev.job}, "the session that works job %d %s", ev.job, ev.word)
	}
	for _, m := range c.marks {
		switch m.what {
		case faultKill:
			ended[m.proc] = true
		case "dead":
			c.did("I9", 1)
			if !ended[m.proc] && strings.HasPrefix(m.proc, "w") && len(c.left) == 0 {
				c.broken("I9", m.at, -1, nil, "worker %s ended by itself: %s", m.proc, m.note)
			}
		}
	}
}

// Statements, by how their texts begin.
var (
	// settling are those that settle jobs of several groups together. They wait for a second at most, whoever has a row
	// locked, or if the machine is busy: a group that takes longer is settled by itself.
	settling = []string{
		"Locks the rows of groups that a session has, to settle",
		"Ends jobs that succeeded, of groups that a session has",
	}
	// ofBatch are those that have found jobs of a batch otherwise than they were, or have waited for who changes them.
	ofBatch = []string{"Ends jobs of a batch", "Makes sure that the failed jobs"}
)

// asked are the SQLSTATEs that the faults, or the handlers on purpose, give rise to, with the texts of which the error
// and its statement have one; nil: any. All others are the library's doing.
var asked = map[string][]string{
	"22012":     nil,                                               // handlers divide by zero on purpose
	"57P01":     nil,                                               // sessions are terminated
	"57P02":     nil,                                               // a server process was killed
	"57P03":     nil,                                               // the server starts or stops
	"23505":     {"dead_letters_pkey"},                             // a dead letter is in the way of another one
	noticesFull: nil,                                               // there is no room for a notice
	"57014":     slices.Concat(settling, []string{"user request"}), // a statement was cancelled when its context ended
	// Another worker has the group of a claim or a record, or somebody a job of a batch, or of a group.
	"55P03": slices.Concat(settling, ofBatch, []string{
		"Locks a group's row to record", "Locks the rows of groups that a session is to have",
	}),
	"22P02": ofBatch,             // a newer message has replaced a job behind the head of a batch
	"42704": {"COMMIT PREPARED"}, // a producer commits again what it has prepared, if it does not know
	"25P03": nil,                 // the session of a frozen worker was ended
	"57P05": nil,                 // the session of a frozen worker that held its groups was ended
	"08006": nil,                 // the connection was reset
	"08003": nil,                 // the connection was reset
	"08P01": nil,                 // the connection was reset in the middle of a message
}

// checkServerLog: I11, the server's log has no error of our sessions that nobody asked for.
func (c *checker) checkServerLog() {
	if !c.logged {
		return
	}
	for _, e := range c.serverErrors {
		if e.who == harness {
			continue
		}
		c.did("I11", 1)
		c.count("server errors "+e.state, 1)
		texts, known := asked[e.state]
		has := func(text string) bool { return strings.Contains(e.text, text) }
		if !known || texts != nil && !slices.ContainsFunc(texts, has) {
			c.broken("I11", forever, -1, nil, "%s %s: %s; %s", e.who, e.state, e.text, e.blocked)
		}
	}
}
