package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
)

// A scenario is one question to measure; its fields are how much of what.
type scenario interface {
	run(ctx context.Context, b *bench) error
}

// A flagged scenario has some of its fields set by flags.
type flagged interface {
	flags(f *flag.FlagSet)
}

// An entry is a scenario in the list, in two forms: quick is for a first look and for smoke tests, less of everything,
// the same question. The rates of those mean little, their checks as much as ever.
type entry struct {
	name, about string
	full, quick scenario
	settings    map[string]string // what the server needs beyond its defaults, as far as this program starts it
}

// scenarios are in the order in which they are told and run.
var scenarios = []entry{
	{
		name: "drain", about: "jobs that do nothing: one per commit against the ceiling, batches against River",
		full:  &drain{jobs: 200_000, groups: 1000, lanes: 16, rounds: 5, naive: 5 * time.Second},
		quick: &drain{jobs: 600, groups: 20, lanes: 4, rounds: 2, naive: 5 * time.Second},
	},
	{
		name: "backlog", about: "rate at short and long backlogs, in few and many groups",
		full: &backlog{
			sizes: []int{10_000, 100_000, 1_000_000}, spread: []int{10, 1000, 100_000, 1_000_000},
			groups: 1000, lanes: 16, jobs: 54_000, rounds: 6, naive: 10 * time.Second,
		},
		quick: &backlog{
			sizes: []int{300, 3000}, spread: []int{5, 30, 3000},
			groups: 30, lanes: 4, jobs: 400, rounds: 2, naive: time.Second,
		},
		settings: countStatements,
	},
	{
		name: "workers", about: "rate by the number of lanes, with handlers that wait",
		full: &workers{
			lanes: []int{1, 10, 50, 100}, handler: 5 * time.Millisecond, measure: 5 * time.Second, groups: 1000,
			rounds: 3,
		},
		quick: &workers{
			lanes: []int{1, 3}, handler: 5 * time.Millisecond, measure: 100 * time.Millisecond, groups: 20, rounds: 1,
		},
	},
	{
		name:  "hot",
		about: "one group, one lane, against one client that sends the same transaction; and batches of 10",
		full:  &hot{jobs: 40_000, rounds: 5}, quick: &hot{jobs: 220, rounds: 1},
	},
	{
		name:  "group-limit",
		about: "one group with jobs of 20 ms, of which several may run at once, and the cost where they need not",
		full:  &groupLimit{jobs: 1500, rounds: 3, takes: 20 * time.Millisecond},
		quick: &groupLimit{jobs: 60, rounds: 1, takes: 5 * time.Millisecond},
	},
	{
		name: "relaxed", about: "completions that do not wait for a disk whose flush takes 2 ms, against those that do",
		full: &relaxed{jobs: 10_000, rounds: 3}, quick: &relaxed{jobs: 50, rounds: 1}, settings: slowDisk(2),
	},
	{
		name: "skew", about: "waits of cold groups beside hot ones",
		full:  &skew{jobs: 200_000, groups: 10_000, lanes: 16, rounds: 2, load: 0.5, measure: 10 * time.Second},
		quick: &skew{jobs: 400, groups: 40, lanes: 4, rounds: 1, load: 0.2, measure: 300 * time.Millisecond},
	},
	{
		name: "lookback", about: "starts of groups that were sent behind another one's backlog",
		full:  &lookback{backlog: 1_000_000, groups: 100, lanes: 16, rounds: 5},
		quick: &lookback{backlog: 2000, groups: 7, lanes: 2, rounds: 2},
	},
	{
		name: "priority", about: "time until a message starts behind a backlog, with a priority and without",
		full: &priority{
			groups: 1_000_000, lanes: 16, messages: 50, every: 100 * time.Millisecond, wait: 5 * time.Second,
		},
		quick: &priority{groups: 20_000, lanes: 2, messages: 5, every: 10 * time.Millisecond, wait: 10 * time.Second},
	},
	{
		name: "latency", about: "from an enqueue to the start of its handler, with idle workers, beside River",
		full:  &latency{rates: []int{100, 1000}, measure: 5 * time.Second, groups: 1000, lanes: 16, rounds: 2},
		quick: &latency{rates: []int{20, 100}, measure: 500 * time.Millisecond, groups: 10, lanes: 2, rounds: 1},
	},
	{
		name: "horizon", about: "rate and claim time while a snapshot is held for the whole run",
		full: &horizon{
			systems: "pgfifo,river,naive", measure: 2 * time.Minute, warm: 10 * time.Second, every: time.Second,
			groups: 1000, lanes: 16, depth: 20_000, late: 5,
		},
		quick: &horizon{
			systems: "pgfifo,pgfifo-sessions,river,naive", measure: 1500 * time.Millisecond,
			warm: 100 * time.Millisecond, every: 50 * time.Millisecond, groups: 20, lanes: 4, depth: 200, late: 1,
		},
		settings: countStatements,
	},
	{
		name: "long-job", about: "short jobs beside some that run all the time",
		full: &longJob{
			long: 4, measure: time.Minute, window: 5 * time.Second, rate: 300, groups: 300, lanes: 16,
		},
		quick: &longJob{
			long: 4, measure: 600 * time.Millisecond, window: 300 * time.Millisecond, rate: 100, groups: 10, lanes: 5,
		},
		settings: countStatements,
	},
	{
		name:  "sessions",
		about: "the lease of a session beside the default one: jobs at once, long jobs, rate, recovery",
		full: &sessions{
			crowd: 5000, takes: 30 * time.Second, crowdLanes: 200,
			long: 50, measure: 2 * time.Minute, rate: 500, groups: 1000, drain: 40_000,
			jobs: 60_000, rounds: 3, lanes: 16, atOnce: []int{16, 100, 400},
			killed: 1000, few: 50, kills: 5,
		},
		quick: &sessions{
			crowd: 60, takes: time.Second, crowdLanes: 8,
			long: 3, measure: 500 * time.Millisecond, rate: 100, groups: 20, drain: 100,
			jobs: 200, rounds: 1, lanes: 4, atOnce: []int{4, 20},
			killed: 12, few: 2, kills: 1,
		},
	},
	{
		name: "queues", about: "waits of one queue's jobs beside another one's backlog of long jobs",
		full: &queues{
			backlog: 10_000, groups: 5000, lanes: 10, takes: time.Second, every: 250 * time.Millisecond,
			measure: 40 * time.Second,
		},
		quick: &queues{
			backlog: 100, groups: 50, lanes: 3, takes: 100 * time.Millisecond, every: 20 * time.Millisecond,
			measure: 400 * time.Millisecond,
		},
	},
	{
		name: "enqueue", about: "messages per second into the queue, against plain INSERTs and River",
		full: &enqueue{
			mix:    []load{{1, 1}, {1, 8}, {1, 32}, {100, 8}, {10_000, 1}, {10_000, 4}, {100_000, 1}},
			varied: []load{{1, 8}, {10_000, 1}}, window: time.Second, groups: 1000, held: 16, rounds: 5,
		},
		quick: &enqueue{
			mix: []load{{1, 2}, {20, 2}}, varied: []load{{20, 2}}, window: 30 * time.Millisecond, groups: 10, held: 3,
			rounds: 1,
		},
	},
	{
		name: "outbox", about: "transactions that enqueue, with commits of 5 ms, against the same without notices",
		full:     &outbox{clients: 16, each: 6, rest: 20 * time.Millisecond, window: 3 * time.Second, rounds: 3},
		quick:    &outbox{clients: 2, each: 2, rest: time.Millisecond, window: 50 * time.Millisecond, rounds: 1},
		settings: slowDisk(5),
	},
	{
		name: "outage", about: "attempts while a downstream is down, and time until all is done afterwards",
		full:  &outage{groups: 10_000, lanes: 10, attempts: fifo.DefaultMaxAttempts, down: time.Minute},
		quick: &outage{groups: 200, lanes: 4, attempts: 2, down: 2 * time.Second},
	},
	{
		name: "idle", about: "statements per second of a worker with nothing to do",
		full:     &idle{lanes: 100, settle: 4 * time.Second, measure: 10 * time.Second},
		quick:    &idle{lanes: 3, settle: 100 * time.Millisecond, measure: 2 * time.Second},
		settings: countStatements,
	},
	{
		name: "delayed", about: "cost of many delayed groups, and lateness of other jobs beside them",
		full: &delayed{
			groups: 1_000_000, lanes: 16, messages: 1000, settle: time.Minute, measure: 30 * time.Second,
		},
		quick: &delayed{
			groups: 3000, lanes: 16, messages: 20, settle: 100 * time.Millisecond, measure: time.Second,
		},
	},
	{
		name: "memory", about: "memory of a worker, by the number of ready groups",
		full: &memory{groups: []int{10_000, 1_000_000}, lanes: 16}, quick: &memory{groups: []int{20, 200}, lanes: 3},
	},
	{
		name: "statements", about: "statements and round trips per job, and what the server does in them",
		full:     &statements{jobs: 60_000, groups: 1000, lanes: 16, rounds: 3},
		quick:    &statements{jobs: 1000, groups: 20, lanes: 4, rounds: 2},
		settings: countStatements,
	},
	{
		name: "recovery", about: "from a worker's SIGKILL to the next start of its job",
		full: &recovery{kills: 200, survivors: 2, lanes: 4}, quick: &recovery{kills: 2, survivors: 1, lanes: 2},
	},
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
	errs    io.Writer // progress, for who watches
	notes   io.Writer // errs, and the notes of the report
	results []Result
	charts  []chart
}

// notef tells people what does not fit the table.
func (b *bench) notef(format string, args ...any) {
	_, _ = fmt.Fprintf(b.notes, format+"\n", args...)
}

// progressf tells of what goes on.
func (b *bench) progressf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.errs, format+"\n", args...)
}

// report adds a line to the table.
func (b *bench) report(r Result) { b.results = append(b.results, r) }
