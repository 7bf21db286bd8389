package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Result is one line of the table. Zero numbers were not measured.
type Result struct {
	System  string
	Params  map[string]any
	Rate    float64
	P50     float64
	P99     float64
	RatioTo string
	Ratio   float64
	Goal    goals
	Extra   map[string]float64
}

// latencies fills in what a histogram tells, if there is something in it.
func (r *Result) latencies(h *histogram) {
	if h.TotalCount() > 0 {
		r.P50, r.P99 = h.millis(50), h.millis(99)
		r.more("max_ms", h.millis(100))
	}
}

// more adds a number that has no column.
func (r *Result) more(name string, v float64) {
	if r.Extra == nil {
		r.Extra = make(map[string]float64)
	}
	r.Extra[name] = v
}

// A histogram counts microseconds, up to a minute, to three digits.
type histogram struct {
	mu sync.Mutex
	*hdrhistogram.Histogram
}

func newHistogram() *histogram {
	return &histogram{Histogram: hdrhistogram.New(1, time.Minute.Microseconds(), 3)}
}

// record adds a duration. One that is off the scale counts as its end.
func (h *histogram) record(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.RecordValue(min(max(d.Microseconds(), 1), h.HighestTrackableValue()))
}

// total is how many were recorded, also while others are.
func (h *histogram) total() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.TotalCount()
}

// millis is a quantile of 100.
func (h *histogram) millis(quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / 1000
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
			if first, ok := common[k]; ok && first != v {
				differ[k] = true
			}
			common[k] = v
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
}

// goals are all bounds of a line. Their zero value is none.
type goals []Goal

// atLeast is a lower bound of the ratio.
func atLeast(v float64) goals { return goals{{Of: "ratio", Op: ">=", Value: v}} }

// atMost is an upper bound of the ratio, of a latency or of an extra.
func atMost(v float64, of string) goals { return goals{{Of: of, Op: "<=", Value: v}} }

// met tells whether a line reaches the goal. What was not measured does not.
func (g Goal) met(r Result) bool {
	seen, measured := r.number(g.Of)
	return measured && (g.Op == ">=" && seen >= g.Value || g.Op == "<=" && seen <= g.Value)
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
