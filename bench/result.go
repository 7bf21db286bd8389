package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Result is one line of the table. Zero numbers were not measured.
type Result struct {
	Scenario string             `json:"scenario"`
	System   string             `json:"system"`
	Params   map[string]any     `json:"params,omitempty"`
	Rate     float64            `json:"jobs_per_s,omitempty"`
	P50      float64            `json:"p50_ms,omitempty"`
	P99      float64            `json:"p99_ms,omitempty"`
	RatioTo  string             `json:"ratio_to,omitempty"`
	Ratio    float64            `json:"ratio,omitempty"`
	Goal     goals              `json:"goal,omitempty"`
	Extra    map[string]float64 `json:"extra,omitempty"`
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

func printJSON(w io.Writer, results []Result) error {
	enc := json.NewEncoder(w)
	for _, r := range results {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return nil
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
