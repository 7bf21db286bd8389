package torture

// checkTwins: I14, of two messages with one DedupID one is enqueued: the other one is told so, with the id of its job,
// or takes the place of one whose transaction was rolled back.
func (c *checker) checkTwins() {
	done := make(map[int64]bool) // by message
	for _, e := range c.effects {
		done[e.msg] = true
	}
	for _, d := range c.dead {
		done[d.msg] = true
	}
	pairs := make(map[int64][]*enqueue)
	for i := range c.enqueues {
		if e := &c.enqueues[i]; e.twins != 0 {
			pairs[e.twins] = append(pairs[e.twins], e)
		}
	}
	for _, pair := range pairs {
		if len(pair) < 2 {
			continue // its producer ended
		}
		c.did("I14", 1)
		a, b := pair[0], pair[1]
		if b.why == aDuplicate {
			a, b = b, a
		}
		jobs := []int64{a.id, b.id}
		switch {
		case done[a.n] && done[b.n], a.result == resOK && b.result == resOK:
			c.broken("I14", b.invoke, b.group, jobs, "messages %d and %d of one DedupID were both enqueued", a.n, b.n)
		case a.why != aDuplicate:
		case b.result == resFailed: // a duplicate, or rolled back
			c.broken("I14", a.invoke, a.group, jobs,
				"message %d is a duplicate of message %d, which was not enqueued (%s)", a.n, b.n, b.why)
		case b.result == resUnknown && !done[b.n] && len(c.left) == 0:
			c.broken("I14", a.invoke, a.group, jobs, "message %d is a duplicate of message %d, which is gone", a.n, b.n)
		case b.result == resOK && a.id != b.id:
			c.broken("I14", a.invoke, a.group, jobs,
				"message %d is a duplicate of job %d, which is not that of message %d", a.n, a.id, b.n)
		default:
			c.count("duplicates that were told so", 1)
		}
	}
}
