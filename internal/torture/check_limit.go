package torture

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
	var open []*turn
	for _, b := range turns {
		c.did("I13", 1)
		still, beside := open[:0], []int64{b.job}
		for _, a := range open {
			if !a.alive(b.start) {
				continue
			}
			still = append(still, a)
			if c.mayOverlap(a, b) == "" && (a.recorded() || a.lost >= b.start+late) {
				beside = append(beside, a.job)
			}
		}
		open = append(still, b)
		most = max(most, len(beside))
		if len(beside) > limit {
			c.broken("I13", b.start, b.group, beside, "%d jobs ran at once where the limit is %d", len(beside), limit)
		}
	}
	return most
}
