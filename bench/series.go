package main

import (
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
)

// A chart is a picture of curves: something over time, or a rate by the size of what it may depend on.
type chart struct {
	name   string // of the file, behind the scenario's; "rate" makes horizon-rate.svg
	title  string
	x, y   axis
	series []series
}

type axis struct {
	label string // with its unit
	log   bool
}

// A series is one curve.
type series struct {
	name   string
	points plotter.XYs
}

// add puts a point at the end of the curve.
func (s *series) add(x, y float64) { s.points = append(s.points, plotter.XY{X: x, Y: y}) }

// plot hands over a chart. It is drawn if charts are asked for.
func (b *bench) plot(c chart) { b.charts = append(b.charts, c) }

// manyPoints is where dots would hide the line.
const manyPoints = 40

// picture draws the curves. It is nil if there is nothing to see.
func (c chart) picture() (*picture, error) {
	p := newPicture(c.title, 480, 260, c.x, c.y)
	draw := plotutil.AddLinePoints
	var curves []any
	for _, s := range c.series {
		points := slices.DeleteFunc(slices.Clone(s.points), func(p plotter.XY) bool {
			return p.Y <= 0 && c.y.log // what a logarithmic axis cannot show
		})
		if len(points) > manyPoints {
			draw = plotutil.AddLines
		}
		if len(points) > 0 {
			curves = append(curves, s.name, points)
		}
	}
	if len(curves) == 0 {
		return nil, nil
	}
	if err := draw(p.Plot, curves...); err != nil {
		return nil, err
	}
	p.fit()
	return p, nil
}
