package main

import (
	"slices"
	"strconv"
)

// Goal is what a line is to reach: one bound of one of its numbers. A line may have more than one.
type Goal struct {
	Of    string // "ratio", "jobs_per_s", "p50_ms", "p99_ms", or a key of Extra
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
		v = r.Ratio
	case "jobs_per_s":
		v = r.Rate
	case "p50_ms":
		v = r.P50
	case "p99_ms":
		v = r.P99
	default:
		v, measured = r.Extra[name]
		return v, measured
	}
	return v, v != 0
}

// plain is a number without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func (g Goal) verdict() string {
	if g.Met {
		return "met"
	}
	return "missed"
}
