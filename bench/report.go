package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// A report is RESULTS.md.
type report struct {
	begun            time.Time
	command          string
	flags            string // that each scenario had
	machine, modules []fact
	sections         []section
}

// A section is one scenario of the report.
type section struct {
	outcome
	files []string // of its charts
}

func (r *report) add(o outcome, files []string) { r.sections = append(r.sections, section{o, files}) }

func (r *report) took() (sum time.Duration) {
	for _, s := range r.sections {
		sum += s.took
	}
	return sum
}

func (r *report) results() (list []Result) {
	for _, s := range r.sections {
		list = append(list, s.results...)
	}
	return list
}

// err names the scenarios that failed.
func (r *report) err() error {
	var list []error
	for _, s := range r.sections {
		if s.err != nil {
			list = append(list, fmt.Errorf("%s: %w", s.scenario, s.err))
		}
	}
	return errors.Join(list...)
}

func (r *report) markdown() string {
	var w strings.Builder
	_, _ = fmt.Fprintf(&w,
		"# Results\n\nWritten by `%s` in `bench/` on %s; the measuring took %v. How to read it is in the "+
			"[README](README.md).\n", r.command, r.begun.Format("2006-01-02 15:04 UTC"), r.took().Round(time.Second))
	r.failures(&w)
	r.goals(&w)
	w.WriteString("\n## Machine and versions\n\n")
	facts := slices.Concat(r.machine, r.modules)
	for _, s := range slices.Backward(r.sections) {
		if s.server != nil {
			facts = append(facts, s.server...)
			break
		}
	}
	t := markdownTable{head: []string{"", ""}}
	for _, f := range facts {
		t.add(f.Name, f.Value)
	}
	t.write(&w)
	for _, s := range r.sections {
		s.markdown(&w, r.flags)
	}
	return w.String()
}

func (r *report) failures(w *strings.Builder) {
	for _, s := range r.sections {
		if s.err != nil {
			_, _ = fmt.Fprintf(w, "\n**[%s](#%[1]s) failed.**\n", s.scenario)
		}
	}
}

// goals lists each goal beside what was seen.
func (r *report) goals(w *strings.Builder) {
	t := markdownTable{head: []string{"scenario", "system", "at", "goal", "seen", ""}}
	for _, s := range r.sections {
		_, own := commonParams(s.results)
		for i, line := range s.results {
			for _, g := range line.Goal {
				verdict := "met"
				if !g.Met {
					verdict = "**missed**"
				}
				t.add(fmt.Sprintf("[%s](#%[1]s)", s.scenario), line.System, pairs(own[i], "%v"), g.text(line),
					g.seen(line), verdict)
			}
		}
	}
	if len(t.rows) > 0 {
		w.WriteString("\n## Goals\n\n")
		t.write(w)
	}
}

// text is the goal in words.
func (g Goal) text(r Result) string {
	sign := map[string]string{">=": "≥", "<=": "≤"}[g.Op]
	if g.Of == "ratio" {
		return fmt.Sprintf("%s %s of %s", sign, plain(g.Value), r.RatioTo)
	}
	return fmt.Sprintf("%s %s %s", g.Of, sign, plain(g.Value))
}

func (g Goal) seen(r Result) string {
	if _, measured := r.number(g.Of); !measured {
		return "not measured"
	}
	if math.Abs(g.Seen) >= 100 {
		return fmt.Sprintf("%.0f", g.Seen)
	}
	return fmt.Sprintf("%.3g", g.Seen)
}

func (s section) markdown(w *strings.Builder, flags string) {
	_, _ = fmt.Fprintf(w, "\n## %s\n\n%s. `go run . %[1]s%[3]s`, %[4]v", s.scenario, capital(s.about), flags,
		s.took.Round(time.Second))
	common, own := commonParams(s.results)
	if len(common) > 0 {
		_, _ = fmt.Fprintf(w, "; %s", pairs(common, "%v"))
	}
	w.WriteString(".")
	if len(s.settings) > 0 {
		_, _ = fmt.Fprintf(w, " It asks the server for `%s`.", strings.Join(settingList(s.settings), "`, `"))
	}
	w.WriteString("\n")
	if s.err != nil {
		_, _ = fmt.Fprintf(w, "\n**Failed**, after what is below:\n\n```text\n%v\n```\n", s.err)
	}
	if len(s.results) > 0 {
		w.WriteString("\n")
		lines(s.results, own).write(w)
	}
	for _, f := range s.files {
		title := strings.TrimSuffix(f, ".svg")
		_, _ = fmt.Fprintf(w, "\n![%s](%s/%s)\n", title, chartFolder, f)
	}
	if notes := strings.TrimSpace(s.notes); notes != "" {
		_, _ = fmt.Fprintf(w, "\n<details><summary>Notes</summary>\n\n```text\n%s\n```\n\n</details>\n", notes)
	}
}

// lines is the table of a scenario, without the columns that are empty.
func lines(results []Result, own []map[string]any) markdownTable {
	t := markdownTable{head: []string{"system", "", "jobs/s", "p50 ms", "p99 ms", "ratio", "to", "goal", "more"}}
	for i, r := range results {
		var goal []string
		for _, g := range r.Goal {
			goal = append(goal, g.text(r)+": "+g.verdict())
		}
		t.add(r.System, pairs(own[i], "%v"), number(r.Rate, "%.0f"), number(r.P50, "%.2f"), number(r.P99, "%.2f"),
			number(r.Ratio, "%.2f"), r.RatioTo, strings.Join(goal, "; "), pairs(r.Extra, "%.4g"))
	}
	return t.compact()
}

func settingList(settings map[string]string) []string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, k+" = "+settings[k])
	}
	return list
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// A markdownTable has one cell in each row for each column.
type markdownTable struct {
	head []string
	rows [][]string
}

func (t *markdownTable) add(cells ...string) { t.rows = append(t.rows, cells) }

// compact leaves out columns with nothing in them.
func (t markdownTable) compact() markdownTable {
	var keep []int
	for i := range t.head {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			keep = append(keep, i)
		}
	}
	pick := func(row []string) (cells []string) {
		for _, i := range keep {
			cells = append(cells, row[i])
		}
		return cells
	}
	c := markdownTable{head: pick(t.head)}
	for _, row := range t.rows {
		c.rows = append(c.rows, pick(row))
	}
	return c
}

func (t markdownTable) write(w *strings.Builder) {
	row := func(cells []string) {
		for _, cell := range cells {
			w.WriteString("| " + strings.NewReplacer("|", `\|`, "\n", " ").Replace(cell) + " ")
		}
		w.WriteString("|\n")
	}
	row(t.head)
	w.WriteString(strings.Repeat("|---", len(t.head)) + "|\n")
	for _, cells := range t.rows {
		row(cells)
	}
}
