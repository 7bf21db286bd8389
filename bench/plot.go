package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the files
)

// A chart is a picture of curves: something over time, or over the progress of the work. What is a number has its place
// in the table.
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

func init() {
	// Colors that people who see fewer can tell apart (Okabe and Ito): blue, orange, green and red.
	plotutil.DefaultColors = []color.Color{
		color.RGBA{0, 114, 178, 255},
		color.RGBA{230, 159, 0, 255},
		color.RGBA{0, 158, 115, 255},
		color.RGBA{213, 94, 0, 255},
	}
	plotutil.DefaultGlyphShapes = []vgdraw.GlyphDrawer{vgdraw.CircleGlyph{}}
	plotutil.DefaultDashes = plotutil.DefaultDashes[:1] // none
}

// manyPoints is where dots would hide the line.
const manyPoints = 40

// picture draws the curves. It is nil if there is nothing to see.
func (c chart) picture() (*plot.Plot, error) {
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
	p := plot.New()
	sans := func(f *font.Font, size font.Length) { f.Variant, f.Size = "Sans", size }
	p.Title.Text, p.Title.Padding = c.title, vg.Points(10)
	sans(&p.Title.TextStyle.Font, 12)
	sans(&p.Legend.TextStyle.Font, 9)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	p.Add(plotter.NewGrid())
	if err := draw(p, curves...); err != nil {
		return nil, err
	}
	for _, a := range []struct {
		to *plot.Axis
		axis
	}{{&p.X, c.x}, {&p.Y, c.y}} {
		sans(&a.to.Label.TextStyle.Font, 10)
		sans(&a.to.Tick.Label.Font, 9)
		a.to.Padding, a.to.Label.Text = 0, a.label
		a.fit(a.to)
	}
	return p, nil
}

// fit gives an axis room, when all data is there. What is not logarithmic begins at 0, so that what looks like half is
// half; what is goes from one power of ten to another.
func (a axis) fit(to *plot.Axis) {
	if a.log {
		to.Scale, to.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		to.Min, to.Max = math.Pow(10, math.Floor(math.Log10(to.Min))), math.Pow(10, math.Ceil(math.Log10(to.Max)+1e-9))
		return
	}
	to.Min, to.Max = min(to.Min, 0), to.Max*1.05
	if to.Max <= to.Min {
		to.Max = to.Min + 1
	}
}

const width, height, margin = 480, 260, 8

// write draws the picture into a file, with its legend beside it, where it hides no data.
func write(p *plot.Plot, path string) error {
	beside := p.Legend.Rectangle(vgdraw.Canvas{}).Size().X + 2*margin
	p.Legend.XOffs, p.Legend.YOffs = beside, -2*margin
	canvas, err := vgdraw.NewFormattedCanvas(width+beside, height, "svg")
	if err != nil {
		return err
	}
	c := vgdraw.New(canvas)
	c.SetColor(color.White) // also in the dark mode of who looks at it
	c.Fill(c.Path())
	p.Draw(vgdraw.Crop(c, margin, -margin-beside, margin, -margin))
	var buf bytes.Buffer
	if _, err := canvas.WriteTo(&buf); err != nil {
		return err
	}
	// The fonts are named and not embedded. Where the first is missing the next have letters of the same width.
	out := bytes.ReplaceAll(buf.Bytes(), []byte("font-family:Liberation Sans;"),
		[]byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, out, 0o644)
}

// drawCharts writes all charts of a scenario into a folder, and returns the names of the files.
func drawCharts(dir, scenario string, charts []chart) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for _, c := range charts {
		name := scenario + "-" + c.name + ".svg"
		p, err := c.picture()
		if err == nil && p != nil {
			names = append(names, name)
			err = write(p, filepath.Join(dir, name))
		}
		if err != nil {
			return names, fmt.Errorf("chart %s: %w", name, err)
		}
	}
	return names, nil
}
