package torture

// checkLimit: I13, no more jobs of a limited queue run at once than its limit says. Those that have lost their sessions
// count as long as I3 does not excuse them.
func (c *checker) checkLimit() {
	var open []*turn
	most := 0
	for _, b := range c.turns {
		if queueOf(b.group, c.batches) != queueLimited {
			continue
		}
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
			c.broken("I13", b.start, b.group, beside, "%d jobs of a queue ran at once whose limit is %d",
				len(beside), limit)
		}
	}
	c.count("jobs at once of the limited queue, at most", most)
}
