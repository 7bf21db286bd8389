package main

import (
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Result is one line of the table. Zero numbers were not measured.
type Result struct {
	Scenario string
	System   string
	Params   map[string]any
	Rate     float64
	P50      float64
	P99      float64
	RatioTo  string
	Ratio    float64
	Goal     goals
	Extra    map[string]float64
}

// quantiles fills in the latencies.
func (r *Result) quantiles(h *hdrhistogram.Histogram) {
	if h.TotalCount() > 0 {
		r.P50, r.P99 = millis(h.ValueAtQuantile(50)), millis(h.ValueAtQuantile(99))
	}
}

func millis(us int64) float64 { return float64(us) / 1000 }

// newHistogram counts microseconds, up to a minute, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// record adds a duration. One that is off the scale counts as its end.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

// printTable is the table of the report for a terminal, with all parameters on each line.
func printTable(w io.Writer, results []Result) error {
	if len(results) == 0 {
		return nil
	}
	params := make([]map[string]any, len(results))
	for i, r := range results {
		params[i] = r.Params
	}
	t := lines(results, params)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(tw, "scenario\t"+strings.Join(t.head, "\t"))
	for i, cells := range t.rows {
		_, _ = fmt.Fprintln(tw, results[i].Scenario+"\t"+strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

func number(v float64, format string) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func pairs[V any](m map[string]V, format string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s="+format, k, m[k]))
	}
	return strings.Join(list, " ")
}

// commonParams parts the parameters on which all lines that have them agree from those of each line.
func commonParams(results []Result) (common map[string]any, own []map[string]any) {
	common = make(map[string]any)
	differ := make(map[string]bool)
	for _, r := range results {
		for k, v := range r.Params {
			if first, ok := common[k]; !ok {
				common[k] = v
			} else if !reflect.DeepEqual(first, v) {
				differ[k] = true
			}
		}
	}
	maps.DeleteFunc(common, func(k string, _ any) bool { return differ[k] })
	for _, r := range results {
		mine := maps.Clone(r.Params)
		maps.DeleteFunc(mine, func(k string, _ any) bool { return !differ[k] })
		own = append(own, mine)
	}
	return common, own
}

// Goal is what a line is to reach: one bound of one of its numbers. A line may have more than one.
type Goal struct {
	Of    string // "ratio", "p99_ms", or a key of Extra
	Op    string // ">=" or "<="
	Value float64
	// Seen and Met are filled in when the line is reported. What was not measured is not met.
	Seen float64
	Met  bool
}

// goals are all bounds of a line. Their zero value is none.
type goals []Goal

// atLeast is a lower bound of the ratio.
func atLeast(v float64) goals { return goals{{Of: "ratio", Op: ">=", Value: v}} }

// atMost is an upper bound of the ratio, of a latency or of an extra.
func atMost(v float64, of string) goals { return goals{{Of: of, Op: "<=", Value: v}} }

// judge returns the goals with what was seen.
func (g goals) judge(r Result) goals {
	g = slices.Clone(g) // the scenario may give them to several lines
	for i := range g {
		seen, measured := r.number(g[i].Of)
		g[i].Seen = seen
		g[i].Met = measured && (g[i].Op == ">=" && seen >= g[i].Value || g[i].Op == "<=" && seen <= g[i].Value)
	}
	return g
}

// number returns one of a line's numbers, by its name, and whether it was measured.
func (r Result) number(name string) (v float64, measured bool) {
	switch name {
	case "ratio":
		return r.Ratio, r.Ratio != 0
	case "p99_ms":
		return r.P99, r.P99 != 0
	}
	v, measured = r.Extra[name]
	return v, measured
}

// plain is a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (g Goal) verdict() string {
	if g.Met {
		return "met"
	}
	return "missed"
}
