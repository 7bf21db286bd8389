package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
)

// A scenario is one question to measure. It is used once: flags, then run.
type scenario interface {
	// flags declares the scenario's own; their values are its fields.
	flags(f *flag.FlagSet)
	run(ctx context.Context, b *bench) error
}

// A quicker scenario has a short form, for a first look and for smoke tests: less of everything, the same question.
type quicker interface{ quick() }

// An entry is a scenario in the list.
type entry struct {
	name, about string
	make        func() scenario
	settings    map[string]string // what the server needs beyond its defaults, as far as this program starts it
}

// scenarios are in the order in which they are told and run.
var scenarios = []entry{
	{"drain", "jobs that do nothing: one per commit against the ceiling, batches against River", of[drain], nil},
	{"backlog", "rate at short and long backlogs, in few and many groups", of[backlog], countStatements},
	{"workers", "rate by the number of lanes, with handlers that wait", of[workers], nil},
	{"hot", "one group, one lane, against one client that sends the same transaction; and batches of 10", of[hot], nil},
	{
		"group-limit",
		"one group with jobs of 20 ms, of which several may run at once, and the cost where they need not",
		of[groupLimit], nil,
	},
	{
		"relaxed", "completions that do not wait for a disk whose flush takes 2 ms, against those that do",
		of[relaxed], slowDisk(2),
	},
	{"skew", "waits of cold groups beside hot ones", of[skew], nil},
	{"lookback", "starts of groups that were sent behind another one's backlog", of[lookback], nil},
	{"priority", "time until a message starts behind a backlog, with a priority and without", of[priority], nil},
	{"latency", "from an enqueue to the start of its handler, with idle workers, beside River", of[latency], nil},
	{"horizon", "rate and claim time while a snapshot is held for the whole run", of[horizon], countStatements},
	{"long-job", "short jobs beside some that run all the time", of[longJob], countStatements},
	{
		"sessions", "the lease of a session beside the default one: jobs at once, long jobs, rate, recovery",
		of[sessions], nil,
	},
	{"queues", "waits of one queue's jobs beside another one's backlog of long jobs", of[queues], nil},
	{"enqueue", "messages per second into the queue, against plain INSERTs and River", of[enqueue], nil},
	{
		"outbox", "transactions that enqueue, with commits of 5 ms, against the same without notices",
		of[outbox], slowDisk(5),
	},
	{"outage", "attempts while a downstream is down, and time until all is done afterwards", of[outage], nil},
	{"idle", "statements per second of a worker with nothing to do", of[idle], countStatements},
	{"delayed", "cost of many delayed groups, and lateness of other jobs beside them", of[delayed], nil},
	{"memory", "memory of a worker, by the number of ready groups", of[memory], nil},
	{
		"statements", "statements and round trips per job, and what the server does in them",
		of[statements], countStatements,
	},
	{"recovery", "from a worker's SIGKILL to the next start of its job", of[recovery], nil},
}

func of[T any, S interface {
	*T
	scenario
}]() scenario {
	return S(new(T))
}

// slowDisk has a commit that waits for the disk wait for so many milliseconds more, and take with it all that come
// meanwhile: a slow flush does the same. One that does not wait for the disk is not held up by either.
func slowDisk(ms int) map[string]string {
	return map[string]string{"commit_delay": fmt.Sprint(1000 * ms), "commit_siblings": "0"}
}

// find returns the scenario of a name.
func find(name string) (entry, error) {
	i := slices.IndexFunc(scenarios, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, fmt.Errorf("no scenario %q", name)
	}
	return scenarios[i], nil
}

// A bench is what a scenario works with, and reports to.
type bench struct {
	*database
	scenario string
	notes    io.Writer
	results  []Result
	charts   []chart
}

// notef tells people what does not fit the table.
func (b *bench) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(b.notes, format+"\n", args...)
}

// report adds a line to the table.
func (b *bench) report(r Result) {
	r.Scenario = b.scenario
	r.Goal = r.Goal.judge(r)
	b.results = append(b.results, r)
}
