package torture

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report is what came of a run.
type Report struct {
	Seed       uint64            `json:"seed"`
	Server     string            `json:"server"`
	Jobs       int               `json:"jobs"`      // messages that producers tried to send
	Done       int               `json:"done"`      // jobs with an effect
	Dead       int               `json:"dead"`      // dead letters
	Attempts   int               `json:"attempts"`  // handlers that began
	Processes  int               `json:"processes"` // worker processes that were started, one after the other
	Seconds    float64           `json:"seconds"`
	Faults     map[string]int    `json:"faults"`
	LeftOut    map[string]string `json:"left_out"`
	Checked    map[string]int    `json:"checked"` // by invariant
	Counts     map[string]int    `json:"counts"`
	Latencies  []Latency         `json:"latencies"`
	Memory     []Trend           `json:"memory,omitempty"` // of a soak
	Violations []Violation       `json:"violations"`
	Account    []string          `json:"account,omitempty"` // of the group where the first violation was
	Artefacts  string            `json:"artefacts,omitempty"`
}

// A Violation is an invariant that was broken.
type Violation struct {
	Invariant string   `json:"invariant"`
	Count     int      `json:"count"`
	JobsUntil int      `json:"jobs_until"` // jobs that had been started before the first time
	Texts     []string `json:"texts"`      // of the first ones, up to mostTold
}

const mostTold = 21

// A Latency is how long something took.
type Latency struct {
	What  string        `json:"what"`
	Count int           `json:"count"`
	P50   time.Duration `json:"p50"`
	P99   time.Duration `json:"p99"`
	Max   time.Duration `json:"max"`
}

// report judges a history.
func (r *run) report(h *history) *Report {
	r.log("checking %d events, %d effects, %d enqueues", len(h.events), len(h.effects), len(h.enqueues))
	c := check(h)
	rep := &Report{
		Seed: r.cfg.Seed, Server: fmt.Sprintf("PostgreSQL %s from %s", r.srv.Version, r.srv.Source),
		Jobs: len(h.enqueues), Done: len(h.effects), Dead: len(h.dead), Attempts: len(c.turns), Processes: len(h.procs),
		Seconds: time.Since(r.began).Round(10 * time.Millisecond).Seconds(),
		Faults:  maps.Clone(r.injected), LeftOut: maps.Clone(r.leftOut), Checked: c.checked, Counts: c.counts,
		Violations: c.violations(), Artefacts: r.dir, Memory: c.memory,
	}
	for _, what := range slices.Sorted(maps.Keys(c.latency)) {
		rep.Latencies = append(rep.Latencies, newLatency(what, c.latency[what]))
	}
	if len(c.breaches) > 0 {
		rep.Account = c.account(c.breaches[0])
	}
	return rep
}

func newLatency(what string, list []int64) Latency {
	slices.Sort(list)
	at := func(share float64) time.Duration {
		return time.Duration(list[min(int(share*float64(len(list))), len(list)-1)]).Round(100 * time.Microsecond)
	}
	return Latency{what, len(list), at(0.5), at(0.99), at(1)}
}

// violations sums up the breaches, the earliest invariant first.
func (c *checker) violations() []Violation {
	list := []Violation{}
	for _, b := range c.breaches {
		i := slices.IndexFunc(list, func(v Violation) bool { return v.Invariant == b.invariant })
		if i < 0 {
			i = len(list)
			list = append(list, Violation{Invariant: b.invariant, JobsUntil: c.startedBy(b.at)})
		}
		if v := &list[i]; v.Count < mostTold {
			v.Texts = append(v.Texts, b.text)
		}
		list[i].Count++
	}
	return list
}

// write leaves the report among the logs.
func (rep *Report) write(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "report.txt"), []byte(rep.String()), 0o600); err != nil {
		return err
	}
	text, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "report.json"), append(text, '\n'), 0o600)
}

// String is the report for people.
func (rep *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %s\n", rep.Seed, rep.Server)
	fmt.Fprintf(&b,
		"%d messages in %.1f s: %d jobs done, %d dead letters, %d attempts in %d worker processes, %.0f jobs/s\n",
		rep.Jobs, rep.Seconds, rep.Done, rep.Dead, rep.Attempts, rep.Processes,
		float64(rep.Done)/max(rep.Seconds, 0.001))
	b.WriteString("\nfaults injected\n")
	for _, name := range slices.Sorted(maps.Keys(rep.Faults)) {
		fmt.Fprintf(&b, "  %6d  %s\n", rep.Faults[name], name)
	}
	for _, name := range slices.Sorted(maps.Keys(rep.LeftOut)) {
		fmt.Fprintf(&b, "  left out: %s: %s\n", name, rep.LeftOut[name])
	}
	b.WriteString("\nbeside them\n")
	for _, name := range slices.Sorted(maps.Keys(rep.Counts)) {
		fmt.Fprintf(&b, "  %6d  %s\n", rep.Counts[name], name)
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(w, "count\tp50\tp99\tmax\t \t\n")
	for _, l := range rep.Latencies {
		_, _ = fmt.Fprintf(w, "%d\t%v\t%v\t%v\t %s\t\n", l.Count, l.P50, l.P99, l.Max, l.What)
	}
	_ = w.Flush()
	for _, t := range rep.Memory {
		fmt.Fprintf(&b, "%v\n", t)
	}
	b.WriteByte('\n')
	for _, inv := range invariants {
		broken := 0
		for _, v := range rep.Violations {
			if v.Invariant == inv.name {
				broken = v.Count
			}
		}
		fmt.Fprintf(&b, "%-9s checked %9d, %d violations: %s\n", inv.name, rep.Checked[inv.name], broken, inv.text)
	}
	if len(rep.Violations) == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, "\nBROKEN, seed %d; the logs are in %s\n", rep.Seed, rep.Artefacts)
	for _, v := range rep.Violations {
		fmt.Fprintf(&b, "%s: %d times, the first after %d jobs had started\n", v.Invariant, v.Count, v.JobsUntil)
		for _, text := range v.Texts {
			b.WriteString("    " + text + "\n")
		}
	}
	if len(rep.Account) > 0 {
		b.WriteString("\nwhat led there\n")
		for _, line := range rep.Account {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}
