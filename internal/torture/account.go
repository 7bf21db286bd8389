package torture

import (
	"cmp"
	"fmt"
	"slices"
)

// accountLines is how long an account may be.
const accountLines = 60

// account tells the history of a group around a breach: of the jobs concerned, and what was done to the processes that
// ran them, until a little later.
func (c *checker) account(b breach) []string {
	type line struct {
		at   int64
		text string
	}
	var told []line
	first, last := int64(forever), b.at
	procs := make(map[int32]bool)
	mine := func(group int32, job int64) bool {
		return slices.Contains(b.jobs, job) || len(b.jobs) == 0 && group == b.group && group >= 0
	}
	for i := range c.events {
		e := &c.events[i]
		if e.job == 0 || !mine(e.group, e.job) || b.at != forever && e.at > b.at+int64(freeze) {
			continue
		}
		first = min(first, e.at)
		if b.at == forever {
			last = e.at // they are in order
		}
		procs[e.proc] = true
		told = append(told, line{e.at, fmt.Sprintf("%s: %v of job %d attempt %d of %s/%s: %d %s",
			c.name(e.proc), e.kind, e.job, e.attempt, queueOf(e.group), groupID(e.group), e.arg, e.word)})
	}
	for _, s := range c.enqueues {
		if slices.Contains(b.jobs, s.id) && s.id != 0 {
			told = append(told, line{s.invoke, fmt.Sprintf("enqueue (%s) of job %d begins", s.how, s.id)},
				line{s.back, fmt.Sprintf("enqueue (%s) of job %d has returned", s.how, s.id)})
		}
	}
	for _, m := range c.marks {
		proc, known := c.index[m.proc]
		if m.at >= first-int64(serverSilence) && m.at <= last+int64(serverSilence) && (!known || procs[proc]) {
			told = append(told, line{m.at, fmt.Sprintf("harness: %s %s %d %s", m.what, m.proc, m.pid, m.note)})
		}
	}
	if len(told) > 0 && first == forever { // no handler ran
		first = told[0].at
	}
	slices.SortStableFunc(told, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	if len(told) > accountLines { // the last ones before the breach matter most
		told = slices.Concat(told[:accountLines/3], []line{{told[accountLines/3].at, "..."}},
			told[len(told)-2*accountLines/3:])
	}
	list := []string{"about: " + b.text}
	for _, l := range told {
		when := "           "
		if l.at != forever {
			when = fmt.Sprintf("%+10.1fms", float64(l.at-first)/1e6)
		}
		list = append(list, when+"  "+l.text)
	}
	return list
}
