package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the files
)

// A picture is a plot with its legend beside it, where it hides no data.
type picture struct {
	*plot.Plot
	width, height vg.Length
}

var blue, grey = color.RGBA{0, 114, 178, 255}, color.RGBA{150, 150, 150, 255}

func init() {
	// Colors that people who see fewer can tell apart (Okabe and Ito).
	orange, green, red := color.RGBA{230, 159, 0, 255}, color.RGBA{0, 158, 115, 255}, color.RGBA{213, 94, 0, 255}
	plotutil.DefaultColors = []color.Color{blue, orange, green, red}
	plotutil.DefaultGlyphShapes = []vgdraw.GlyphDrawer{vgdraw.CircleGlyph{}}
	plotutil.DefaultDashes = plotutil.DefaultDashes[:1] // none
}

func newPicture(title string, width, height vg.Length, x, y axis) *picture {
	p := &picture{plot.New(), width, height}
	sans := func(f *font.Font, size font.Length) { f.Variant, f.Size = "Sans", size }
	p.Title.Text, p.Title.Padding = title, vg.Points(10)
	sans(&p.Title.TextStyle.Font, 12)
	for _, a := range []struct {
		to *plot.Axis
		axis
	}{{&p.X, x}, {&p.Y, y}} {
		sans(&a.to.Label.TextStyle.Font, 10)
		sans(&a.to.Tick.Label.Font, 9)
		a.to.Padding, a.to.Label.Text = 0, a.label
		if a.log {
			a.to.Scale, a.to.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		}
	}
	sans(&p.Legend.TextStyle.Font, 9)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	p.Add(plotter.NewGrid())
	return p
}

// fit gives the axes room, when all data is there. What is not logarithmic begins at 0, so that what looks like half is
// half; what is goes from one power of ten to another.
func (p *picture) fit() {
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		if _, ok := a.Scale.(plot.LogScale); ok {
			a.Min = math.Pow(10, math.Floor(math.Log10(a.Min)))
			a.Max = math.Pow(10, math.Ceil(math.Log10(a.Max)+1e-9))
			continue
		}
		a.Min = min(a.Min, 0)
		a.Max *= 1.05
		if a.Max <= a.Min {
			a.Max = a.Min + 1
		}
	}
}

const margin = 8

// write draws the picture into a file.
func (p *picture) write(path string) error {
	beside := p.Legend.Rectangle(vgdraw.Canvas{}).Size().X
	if beside > 0 {
		beside += 2 * margin
	}
	p.Legend.XOffs, p.Legend.YOffs = beside, -2*margin
	canvas, err := vgdraw.NewFormattedCanvas(p.width+beside, p.height, "svg")
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
func drawCharts(dir, scenario string, results []Result, charts []chart) (names []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	draw := func(name string, p *picture, err error) error {
		if err != nil {
			return fmt.Errorf("chart %s: %w", name, err)
		}
		if p == nil {
			return nil
		}
		name = scenario + "-" + name + ".svg"
		names = append(names, name)
		return p.write(filepath.Join(dir, name))
	}
	rates, err := ratesPicture(scenario, results)
	if err := draw("rates", rates, err); err != nil {
		return names, err
	}
	latencies, err := latenciesPicture(scenario, results)
	if err := draw("latencies", latencies, err); err != nil {
		return names, err
	}
	for _, c := range charts {
		p, err := c.picture()
		if err := draw(c.name, p, err); err != nil {
			return names, err
		}
	}
	return names, nil
}
