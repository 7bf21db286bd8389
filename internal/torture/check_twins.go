package torture

// readTwins finds the messages that share a DedupID with another one.
func (c *checker) readTwins() {
	firsts := make(map[int64]*enqueue)
	for i := range c.enqueues {
		b := &c.enqueues[i]
		if b.twins == 0 {
			continue
		}
		if a := firsts[b.twins]; a != nil {
			c.twin[a], c.twin[b] = b, a
		}
		firsts[b.twins] = b
	}
}

// met reports whether a message has met another one with its DedupID.
func (e *enqueue) met() bool { return e.why == aDuplicate || e.replaced }

// checkTwins: I14, of two messages with one DedupID one is enqueued: the other one is told so, with the id of its job,
// or is that job from then on, or takes the place of one whose transaction was rolled back.
func (c *checker) checkTwins() {
	done := func(msg int64) bool { return len(c.done[msg]) > 0 }
	for a, b := range c.twin {
		if b.met() && !a.met() || a.met() == b.met() && a.n > b.n {
			continue // each pair once, who has met the other first
		}
		c.did("I14", 1)
		jobs := []int64{a.id, b.id}
		switch {
		case done(a.n) && done(b.n), a.result == resOK && b.result == resOK && !a.met():
			c.broken("I14", b.invoke, b.group, jobs, "messages %d and %d of one DedupID were both enqueued", a.n, b.n)
		case !a.met():
		case b.result == resFailed: // it has met the other one, too, or was rolled back
			c.broken("I14", a.invoke, a.group, jobs,
				"message %d has met message %d of its DedupID, which was not enqueued (%s)", a.n, b.n, b.why)
		case b.result == resUnknown && !done(a.n) && !done(b.n) && len(c.left) == 0:
			c.broken("I14", a.invoke, a.group, jobs,
				"message %d has met message %d of its DedupID, which is gone", a.n, b.n)
		case b.result == resOK && a.id != b.id:
			c.broken("I14", a.invoke, a.group, jobs,
				"message %d has met job %d of its DedupID, which is not that of message %d", a.n, a.id, b.n)
		case b.met():
			c.broken("I14", a.invoke, a.group, jobs, "messages %d and %d of one DedupID have met each other", a.n, b.n)
		case a.replaced:
			c.count("jobs that newer messages have replaced", 1)
		default:
			c.count("duplicates that were told so", 1)
		}
	}
}

// replacedBy returns the message that has taken the place of an enqueued one, or may have, as far as its producer
// knows; or nil.
func (c *checker) replacedBy(e *enqueue) *enqueue {
	if b := c.twin[e]; b != nil && (b.replaced || b.result == resUnknown) {
		return b
	}
	return nil
}
