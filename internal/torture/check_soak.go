package torture

// mostStatements bounds the prepared statements of a session of a worker: 40 are the library's, some ten the handlers'.
const mostStatements = 56

// checkSoak: I15, what processes have looked at themselves.
func (c *checker) checkSoak() {
	if !c.soak {
		return
	}
	looked, counted, most := len(c.of[evLeft]), len(c.of[evPrepared]), int64(0)
	for _, e := range c.of[evLeft] {
		if e.arg > 0 {
			c.broken("I15", e.at, -1, nil, "%s has left behind %s", c.name(e.proc), e.word)
		}
	}
	for _, e := range c.of[evPrepared] {
		most = max(most, e.arg)
		if e.arg > mostStatements {
			c.broken("I15", e.at, e.group, []int64{e.job}, "a session has %d prepared statements, more than %d",
				e.arg, mostStatements)
		}
	}
	c.did("I15", looked+counted)
	c.count("prepared statements of a session, at most", int(most))
	if looked == 0 || counted == 0 {
		c.broken("I15", forever, -1, nil,
			"%d processes have looked at what they leave behind, and %d handlers at statements", looked, counted)
	}
	c.checkMemory()
}

// checkMemory: I15, memory does not grow in the long run. What is too short for a trend tells nothing.
func (c *checker) checkMemory() {
	memory := make(map[string][]sample) // by process and kind
	for _, e := range c.of[evMemory] {
		if of := c.name(e.proc) + e.word; e.arg > 0 {
			memory[of] = append(memory[of], sample{e.at, e.arg})
		}
	}
	for _, name := range c.procs {
		for _, kind := range memories {
			t := newTrend(name+": "+kind.text, memory[name+kind.word], kind.slack)
			if t.Samples == 0 {
				continue
			}
			c.did("I15", t.Samples)
			c.memory = append(c.memory, t)
			if c.long && !t.Flat {
				c.broken("I15", forever, -1, nil, "%v", t)
			}
		}
	}
	if c.long && len(c.memory) == 0 {
		c.broken("I15", forever, -1, nil, "too short for a trend of the memory: %d samples are needed", minSamples)
	}
}
