package torture

// mostStatements bounds the prepared statements of a session of a worker: 40 are the library's, some ten the handlers'.
const mostStatements = 56

// checkSoak: I15, what processes have looked at themselves.
func (c *checker) checkSoak() {
	if !c.soak {
		return
	}
	var looked, counted, most int64
	memory := make(map[int32]map[string][]sample)
	for i := range c.events {
		switch e := &c.events[i]; e.kind {
		case evLeft:
			looked++
			if e.arg > 0 {
				c.broken("I15", e.at, -1, nil, "%s has left behind %s", c.name(e.proc), e.word)
			}
		case evPrepared:
			counted++
			most = max(most, e.arg)
			if e.arg > mostStatements {
				c.broken("I15", e.at, e.group, []int64{e.job}, "a session has %d prepared statements, more than %d",
					e.arg, mostStatements)
			}
		case evMemory:
			if memory[e.proc] == nil {
				memory[e.proc] = make(map[string][]sample)
			}
			if e.arg > 0 {
				memory[e.proc][e.word] = append(memory[e.proc][e.word], sample{e.at, e.arg})
			}
		}
	}
	c.did("I15", int(looked+counted))
	c.count("prepared statements of a session, at most", int(most))
	if looked == 0 || counted == 0 {
		c.broken("I15", forever, -1, nil,
			"%d processes have looked at what they leave behind, and %d handlers at statements", looked, counted)
	}
	c.checkMemory(memory)
}

// checkMemory: I15, memory does not grow in the long run. What is too short for a trend tells nothing.
func (c *checker) checkMemory(memory map[int32]map[string][]sample) {
	for proc, name := range c.procs {
		for _, kind := range memories {
			t := newTrend(name+": "+kind.text, memory[int32(proc)][kind.word], kind.slack)
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
