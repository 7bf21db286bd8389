package torture

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// claimWithin is how long before its handler starts a job may have been claimed, and so without a lower id that was
// committed since: what was claimed with it runs first, and the machine is busy.
const claimWithin = int64(8 * time.Second)

// checkCommits: I4, each group's hash chain is that of its effects in their order, and that is the order of ids, but
// for jobs that were committed late. Where several jobs of a group may run, effects have no order.
func (c *checker) checkCommits() {
	groups := make(map[int32][]effect)
	for _, e := range c.effects {
		groups[e.group] = append(groups[e.group], e)
	}
	for group, list := range groups {
		if queueOf(group) == queueSeveral {
			continue
		}
		c.checkChain(group, list)
		highest := 0 // where
		for i := range list {
			c.did("I4", 1)
			if list[i].job >= list[highest].job {
				highest = i
				continue
			}
			for j := range i {
				if list[j].job > list[i].job {
					c.overtaken(group, c.turnOf(list[j].job, list[j].attempt), list[j].job, list[i].job, list[j].msg,
						list[i].msg, "was committed")
				}
			}
		}
	}
}

// checkChain replays a hash chain.
func (c *checker) checkChain(group int32, effects []effect) {
	c.did("I4", 1)
	var h []byte
	for i, e := range effects {
		if e.place != int64(i+1) {
			c.broken("I4", c.startOf(&effects[i]), group, []int64{e.job},
				"place %d of the chain has the effect of place %d", i+1, e.place)
			return
		}
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(h, uint64(e.job)))
		h = sum[:]
	}
	if chain := c.chains[group]; chain.length != int64(len(effects)) || !bytes.Equal(chain.hash, h) {
		c.broken("I4", forever, group, nil, "the chain has %d links, which are not the %d effects", chain.length,
			len(effects))
	}
}

// checkStarts: I4, handlers of a group start in the order of ids, but for jobs that were committed late. See
// checkSeveral for where several may run.
func (c *checker) checkStarts() {
	for group, turns := range c.byGroup {
		if turns[0].queue == queueSeveral {
			continue
		}
		highest := -1 // where
		for i, t := range turns {
			c.did("I4", 1)
			if highest < 0 || t.job >= turns[highest].job {
				highest = i
				continue
			}
			if c.excuse(t.proc, 0, t.start) != "" {
				continue // the stamp may be later than the claim: the job was lost in between
			}
			for j := i - 1; j >= 0; j-- {
				if turns[j].job > t.job {
					if c.sameBatch(turns[:j], turns[j], t.job) {
						c.count("jobs that ran again because their batch was undone", 1)
						break
					}
					if c.takenBack(turns[j], t) {
						c.count("jobs that ran again because the server had lost their relaxed completion", 1)
						break
					}
					c.overtaken(group, turns[j], turns[j].job, t.job, turns[j].msg, t.msg, "started")
					break // the nearest one: what was before it has been looked at
				}
			}
		}
	}
}

// takenBack reports whether a job runs again behind the turn because the server went down meanwhile, with a completion
// that it had not written yet.
func (c *checker) takenBack(x, again *turn) bool {
	return x.queue == queueRelaxed && c.serverWent(x.start, again.start) &&
		slices.ContainsFunc(c.byJob[again.job], func(t *turn) bool {
			return t.start < x.start && (t.outcome == "succeeded" || t.outcome == "unknown" || t.outcome == "")
		})
}

// sameBatch reports whether a job had run just before, in the same batch as the turn, which was undone as a whole then.
func (c *checker) sameBatch(before []*turn, x *turn, job int64) bool {
	if !ofGroup(x.queue) && !acrossGroups(x.queue) {
		return false
	}
	for i := len(before) - 1; i >= 0; i-- {
		if t := before[i]; t.job == job {
			return t.proc == x.proc && (t.pid == x.pid || x.pid == 0 || t.pid == 0) && t.settled > x.start
		}
	}
	return false
}

// overtaken judges a job that came after one with a higher id. That may be if it was committed late, and had not run
// yet.
func (c *checker) overtaken(group int32, by *turn, first, second, firstMsg, secondMsg int64, what string) {
	y := c.enqueued(secondMsg)
	at := int64(forever)
	if by != nil {
		at = by.start
	}
	before := by != nil && c.excuse(by.proc, 0, by.start) == "" &&
		slices.ContainsFunc(c.byJob[second], func(t *turn) bool { return t.start < by.start && t.start > y.invoke })
	if !before && c.cameLate(by, firstMsg, secondMsg) {
		c.count("lower ids that were committed late", 1)
		return
	}
	c.broken("I4", at, group, []int64{first, second}, "job %d %s before job %d, which was there", first, what, second)
}

// cameLate reports whether a job with a lower id may not have been there, or not for long, when another one was
// started, and their enqueues overlapped: they were two.
func (c *checker) cameLate(by *turn, firstMsg, secondMsg int64) bool {
	x, y := c.enqueued(firstMsg), c.enqueued(secondMsg)
	together := x.invoke == y.invoke && x.how == y.how && c.sent[firstMsg] != nil &&
		c.sent[secondMsg] != nil // in one call
	return (by == nil || y.back > by.start-claimWithin) && x.invoke < y.back && y.invoke < x.back && !together
}

// enqueued returns when a message was enqueued. A job that a handler spawned is there when that attempt has settled.
func (c *checker) enqueued(msg int64) (e enqueue) {
	if known := c.sent[msg]; known != nil {
		if first := c.twin[known]; known.replaced && first != nil { // its job was there before
			known = first
		}
		e = *known
		if e.back == 0 || e.result == resUnknown {
			e.back = forever
		}
		return e
	}
	e.back = forever
	if parent := c.sent[msg-children]; parent != nil {
		for _, t := range c.byJob[parent.id] {
			if e.invoke == 0 {
				e.invoke = t.start
			}
			if c.effectBy(t) != nil {
				e.invoke, e.back = t.start, t.settled
			}
		}
	}
	return e
}

// checkIDs: I4, of two enqueues of a group of which one returned before the other began, the first has the lower id.
func (c *checker) checkIDs() {
	groups := make(map[int32][]*enqueue)
	for i := range c.enqueues {
		if e := &c.enqueues[i]; e.result == resOK && !e.replaced {
			groups[e.group] = append(groups[e.group], e)
		}
	}
	for group, byInvoke := range groups {
		byBack := slices.Clone(byInvoke)
		slices.SortFunc(byBack, func(a, b *enqueue) int { return cmp.Compare(a.back, b.back) })
		slices.SortFunc(byInvoke, func(a, b *enqueue) int { return cmp.Compare(a.invoke, b.invoke) })
		var highest *enqueue
		for _, e := range byInvoke {
			for len(byBack) > 0 && byBack[0].back < e.invoke {
				if highest == nil || byBack[0].id > highest.id {
					highest = byBack[0]
				}
				byBack = byBack[1:]
			}
			c.did("I4", 1)
			if highest != nil && highest.id > e.id {
				c.broken("I4", e.invoke, group, []int64{highest.id, e.id},
					"job %d was enqueued when the enqueue of job %d had returned", e.id, highest.id)
			}
		}
	}
}
