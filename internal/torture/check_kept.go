package torture

// checkKept: I6, when a handler begins whose group is a session's, the group's row says so, and which attempt it is: it
// is counted whatever happens then. And I5: the attempt that completes a job is the last one that has begun, whichever
// has lost its session. A former holder may complete it if nobody has taken its group.
func (c *checker) checkKept() {
	for job, turns := range c.byJob {
		if !keeps(turns[0].queue) {
			continue
		}
		for _, t := range turns {
			if t.mark == 0 {
				continue
			}
			c.did("I6", 1)
			if t.mark < 0 && c.excuse(t.proc, 0, t.start) == "" &&
				c.excuse(t.proc, 0, t.start+int64(keptWithin)) == "" {
				c.broken("I6", t.start, t.group, []int64{job},
					"the handler of job %d attempt %d began, and its group's row did not say so", job, t.attempt)
			}
		}
		for i, a := range turns {
			if a.outcome != "succeeded" {
				continue
			}
			c.did("I5", 1)
			for _, b := range turns[i+1:] {
				if b.attempt > a.attempt {
					c.broken("I5", b.start, b.group, []int64{job},
						"attempt %d of job %d completed it, and attempt %d had taken its group",
						a.attempt, job, b.attempt)
				}
			}
			if a.lost < a.settled {
				c.count("jobs that were completed although their session had ended", 1)
			}
		}
	}
}
