package main

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
)

// A bar is one line of a table in a picture, from one number of it to another.
type bar struct {
	name     string
	from, to float64
	text     string // at its end
	color    color.Color
}

// bars are the lines that a picture is of, named by system, and by those parameters that differ. A line that is there
// again, for its ratio to something else, is left out. The first is on top.
func bars(results []Result, draw func(Result) (bar, bool)) (list []bar) {
	var drawn []bar
	var of []Result
	for _, r := range results {
		if b, ok := draw(r); ok {
			drawn, of = append(drawn, b), append(of, r)
		}
	}
	_, own := commonParams(of)
	for i, b := range drawn {
		b.name = strings.TrimSpace(of[i].System + "  " + pairs(own[i], "%v"))
		if !slices.ContainsFunc(list, func(other bar) bool { return other.name == b.name }) {
			list = append(list, b)
		}
	}
	slices.Reverse(list) // the axis counts from below
	return list
}

// ratesPicture shows the rates of a scenario. It is nil if there are less than two, or the scenario gave the load.
func ratesPicture(scenario string, results []Result) (*picture, error) {
	list := bars(results, func(r Result) (bar, bool) {
		b := bar{to: r.Rate, text: fmt.Sprintf("%.0f", r.Rate), color: grey}
		if strings.HasPrefix(r.System, "pgfifo") {
			b.color = blue
		}
		_, loaded := r.Params["rate"]
		return b, r.Rate > 0 && !loaded
	})
	if len(list) < 2 {
		return nil, nil
	}
	return barPicture(scenario+": jobs per second", axis{label: "jobs/s"}, list, vg.Points(11))
}

// latenciesPicture shows the median and the 99th percentile, on a logarithmic axis.
func latenciesPicture(scenario string, results []Result) (*picture, error) {
	list := bars(results, func(r Result) (bar, bool) {
		text := fmt.Sprintf("%.4g / %.4g", r.P50, r.P99)
		return bar{from: r.P50, to: r.P99, text: text, color: grey}, r.P50 > 0 && r.P99 > 0
	})
	if len(list) == 0 {
		return nil, nil
	}
	p, err := barPicture(scenario+": median and 99th percentile", axis{label: "milliseconds", log: true}, list,
		vg.Points(2))
	if err != nil {
		return nil, err
	}
	medians, tails := make(plotter.XYs, len(list)), make(plotter.XYs, len(list))
	for i, b := range list {
		medians[i], tails[i] = plotter.XY{X: b.from, Y: float64(i)}, plotter.XY{X: b.to, Y: float64(i)}
	}
	return p, plotutil.AddScatters(p.Plot, "p50", medians, "p99", tails)
}

// barPicture has a line for each bar, its name before it and its text behind.
func barPicture(title string, x axis, list []bar, width vg.Length) (*picture, error) {
	p := newPicture(title, 360, vg.Length(70+20*len(list)), x, axis{})
	var ends plotter.XYLabels
	var names []string
	longest := vg.Length(0)
	for i, b := range list {
		end := plotter.XY{X: b.to, Y: float64(i)}
		line, err := plotter.NewLine(plotter.XYs{{X: b.from, Y: end.Y}, end})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.name, err)
		}
		line.Color, line.Width = b.color, width
		p.Add(line)
		ends.XYs, ends.Labels = append(ends.XYs, end), append(ends.Labels, b.text)
		names = append(names, b.name)
		longest = max(longest, p.Y.Tick.Label.Width(b.name))
	}
	labels, err := plotter.NewLabels(ends)
	if err != nil {
		return nil, err
	}
	for i := range labels.TextStyle {
		style := &labels.TextStyle[i]
		style.Font.Variant, style.Font.Size, style.YAlign = "Sans", 9, vgdraw.YCenter
	}
	labels.Offset = vg.Point{X: vg.Points(5), Y: vg.Points(1)}
	p.Add(labels)
	p.fit()
	p.width += longest
	p.NominalY(names...)
	p.Y.Min, p.Y.Max = -0.6, float64(len(list))-0.4
	return p, nil
}
