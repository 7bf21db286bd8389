package main

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// A bar is one line of a table in a picture.
type bar struct {
	label string
	Result
}

// bars names the lines that a picture is of: by system, and by those parameters that differ. A line that is there
// again, for its ratio to something else, is left out. The first is on top.
func bars(results []Result, in func(Result) bool) []bar {
	results = slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return !in(r) })
	_, own := commonParams(results)
	var list []bar
	seen := make(map[string]bool)
	for i, r := range results {
		label := strings.TrimSpace(r.System + "  " + pairs(own[i], "%v"))
		if !seen[label] {
			seen[label] = true
			list = append(list, bar{label, r})
		}
	}
	slices.Reverse(list) // the axis counts from below
	return list
}

// ratesPicture shows the rates of a scenario. It is nil if there are less than two, or the scenario gave the load.
func ratesPicture(scenario string, results []Result) (*picture, error) {
	list := bars(results, func(r Result) bool { return r.Rate > 0 && !loaded(r) })
	if len(list) < 2 {
		return nil, nil
	}
	p := barPicture(scenario+": jobs per second", list)
	p.scale(&p.plot.X, axis{label: "jobs/s"})
	var ends plotter.XYLabels
	for i, b := range list {
		// One chart for each bar: they have one color for all of theirs.
		c, err := plotter.NewBarChart(plotter.Values{b.Rate}, vg.Points(11))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.label, err)
		}
		c.Horizontal, c.XMin, c.LineStyle.Width, c.Color = true, float64(i), 0, grey
		if strings.HasPrefix(b.System, "pgfifo") {
			c.Color = blue
		}
		p.plot.Add(c)
		ends.XYs = append(ends.XYs, plotter.XY{X: b.Rate, Y: float64(i)})
		ends.Labels = append(ends.Labels, fmt.Sprintf("%.0f", b.Rate))
	}
	return p, p.finish(list, ends)
}

// latenciesPicture shows the median and the 99th percentile, on a logarithmic axis.
func latenciesPicture(scenario string, results []Result) (*picture, error) {
	list := bars(results, func(r Result) bool { return r.P50 > 0 && r.P99 > 0 })
	if len(list) == 0 {
		return nil, nil
	}
	p := barPicture(scenario+": median and 99th percentile", list)
	p.scale(&p.plot.X, axis{label: "milliseconds", log: true})
	var ends plotter.XYLabels
	var medians, tails plotter.XYs
	for i, b := range list {
		y := float64(i)
		span, err := plotter.NewLine(plotter.XYs{{X: b.P50, Y: y}, {X: b.P99, Y: y}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.label, err)
		}
		span.Color, span.Width = grey, vg.Points(2)
		p.plot.Add(span)
		medians, tails = append(medians, plotter.XY{X: b.P50, Y: y}), append(tails, plotter.XY{X: b.P99, Y: y})
		ends.XYs = append(ends.XYs, plotter.XY{X: b.P99, Y: y})
		ends.Labels = append(ends.Labels, fmt.Sprintf("%.4g / %.4g", b.P50, b.P99))
	}
	for _, dots := range []struct {
		name  string
		at    plotter.XYs
		color color.Color
	}{{"p50", medians, blue}, {"p99", tails, orange}} {
		s, err := plotter.NewScatter(dots.at)
		if err != nil {
			return nil, err
		}
		s.Shape, s.Color, s.Radius = vgdraw.CircleGlyph{}, dots.color, vg.Points(3.5)
		p.plot.Add(s)
		p.legend.Add(dots.name, s)
		p.entries++
	}
	return p, p.finish(list, ends)
}

// loaded tells whether the scenario gave the rate: then it is no result.
func loaded(r Result) bool {
	_, given := r.Params["rate"]
	return given
}

func barPicture(title string, list []bar) *picture {
	return newPicture(title, 360, vg.Length(70+20*len(list)))
}

// finish puts a label at the end of each bar, and its name before it.
func (p *picture) finish(list []bar, ends plotter.XYLabels) error {
	labels, err := plotter.NewLabels(ends)
	if err != nil {
		return err
	}
	for i := range labels.TextStyle {
		style := &labels.TextStyle[i]
		style.Font.Variant, style.Font.Size, style.YAlign = "Sans", 9, vgdraw.YCenter
	}
	labels.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(1)}
	p.plot.Add(labels)
	p.fit()
	names := make(plot.ConstantTicks, len(list))
	y, longest := &p.plot.Y, vg.Length(0)
	for i, b := range list {
		names[i] = plot.Tick{Value: float64(i), Label: b.label}
		longest = max(longest, y.Tick.Label.Width(b.label))
	}
	p.width += longest
	y.Min, y.Max, y.Tick.Marker, y.Tick.Length, y.Width = -0.6, float64(len(list))-0.4, names, 0, 0
	return nil
}
