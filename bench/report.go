package main

import (
	"errors"
	"fmt"
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

// err names the scenarios that failed.
func (r *report) err() error {
	var list []error
	for _, s := range r.sections {
		if s.err != nil {
			list = append(list, fmt.Errorf("%s: %w", s.name, s.err))
		}
	}
	return errors.Join(list...)
}

func (r *report) markdown() string {
	var w strings.Builder
	var took time.Duration
	for _, s := range r.sections {
		took += s.took
	}
	_, _ = fmt.Fprintf(&w,
		"# Results\n\nWritten by `%s` in `bench/` on %s; the measuring took %v. How to read it is in the "+
			"[README](README.md).\n", r.command, r.begun.Format("2006-01-02 15:04 UTC"), took.Round(time.Second))
	for _, s := range r.sections {
		if s.err != nil {
			_, _ = fmt.Fprintf(&w, "\n**[%s](#%[1]s) failed.**\n", s.name)
		}
	}
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

// goals lists each goal beside what was seen.
func (r *report) goals(w *strings.Builder) {
	t := markdownTable{head: []string{"scenario", "system", "at", "goal", "seen", ""}}
	for _, s := range r.sections {
		_, own := commonParams(s.results)
		for i, line := range s.results {
			for _, g := range line.Goal {
				verdict := strings.ReplaceAll(g.verdict(line), "missed", "**missed**")
				t.add(fmt.Sprintf("[%s](#%[1]s)", s.name), line.System, pairs(own[i], "%v"), g.text(line),
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
		return fmt.Sprintf("%s %v of %s", sign, g.Value, r.RatioTo)
	}
	return fmt.Sprintf("%s %s %v", g.Of, sign, g.Value)
}

func (g Goal) verdict(r Result) string {
	if g.met(r) {
		return "met"
	}
	return "missed"
}

func (g Goal) seen(r Result) string {
	seen, measured := r.number(g.Of)
	switch {
	case !measured:
		return "not measured"
	case math.Abs(seen) >= 100:
		return fmt.Sprintf("%.0f", seen)
	}
	return fmt.Sprintf("%.3g", seen)
}

func (s section) markdown(w *strings.Builder, flags string) {
	_, _ = fmt.Fprintf(w, "\n## %s\n\n%s. `go run . %[1]s%[3]s`, %[4]v", s.name, capital(s.about), flags,
		s.took.Round(time.Second))
	common, _ := commonParams(s.results)
	if len(common) > 0 {
		_, _ = fmt.Fprintf(w, "; %s", pairs(common, "%v"))
	}
	w.WriteString(".")
	if len(s.settings) > 0 {
		_, _ = fmt.Fprintf(w, " It asks the server for `%s`.", pairs(s.settings, "%v"))
	}
	w.WriteString("\n")
	if s.err != nil {
		_, _ = fmt.Fprintf(w, "\n**Failed**, after what is below:\n\n```text\n%v\n```\n", s.err)
	}
	w.WriteString("\n")
	s.table(w)
	for _, f := range s.files {
		title := strings.TrimSuffix(f, ".svg")
		_, _ = fmt.Fprintf(w, "\n![%s](%s/%s)\n", title, chartFolder, f)
	}
	if notes := strings.TrimSpace(s.notes); notes != "" {
		_, _ = fmt.Fprintf(w, "\n<details><summary>Notes</summary>\n\n```text\n%s\n```\n\n</details>\n", notes)
	}
}

// table writes the lines, without the columns that are empty.
func (o outcome) table(w *strings.Builder) {
	if len(o.results) == 0 {
		return
	}
	_, own := commonParams(o.results)
	t := markdownTable{head: []string{"system", "", "jobs/s", "p50 ms", "p99 ms", "ratio", "to", "goal", "more"}}
	for i, r := range o.results {
		var goal []string
		for _, g := range r.Goal {
			goal = append(goal, g.text(r)+": "+g.verdict(r))
		}
		t.add(r.System, pairs(own[i], "%v"), number(r.Rate, "%.0f"), number(r.P50, "%.2f"), number(r.P99, "%.2f"),
			number(r.Ratio, "%.2f"), r.RatioTo, strings.Join(goal, "; "), pairs(r.Extra, "%.4g"))
	}
	t.write(w)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// A markdownTable has one cell in each row for each column.
type markdownTable struct {
	head []string
	rows [][]string
}

func (t *markdownTable) add(cells ...string) { t.rows = append(t.rows, cells) }

// write leaves out columns with nothing in them.
func (t markdownTable) write(w *strings.Builder) {
	escape := strings.NewReplacer("|", `\|`, "\n", " ")
	rule := slices.Repeat([]string{"---"}, len(t.head))
	for n, row := range slices.Concat([][]string{t.head, rule}, t.rows) {
		for i, cell := range row {
			if !slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
				continue
			}
			if n == 1 {
				w.WriteString("|" + cell)
			} else {
				w.WriteString("| " + escape.Replace(cell) + " ")
			}
		}
		w.WriteString("|\n")
	}
}
