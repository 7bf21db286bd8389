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
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgsvg" // the format of the files
)

// A picture is a plot with its legend beside it, where it hides no data.
type picture struct {
	plot          *plot.Plot
	legend        plot.Legend
	entries       int
	width, height vg.Length
}

// Colors that people who see fewer can tell apart (Okabe and Ito).
var (
	blue    = color.RGBA{0, 114, 178, 255}
	orange  = color.RGBA{230, 159, 0, 255}
	green   = color.RGBA{0, 158, 115, 255}
	red     = color.RGBA{213, 94, 0, 255}
	purple  = color.RGBA{204, 121, 167, 255}
	sky     = color.RGBA{86, 180, 233, 255}
	grey    = color.RGBA{150, 150, 150, 255}
	faint   = color.RGBA{225, 225, 225, 255}
	ink     = color.RGBA{50, 50, 50, 255}
	palette = []color.Color{blue, orange, green, red, purple, sky}
)

func colorOf(i int) color.Color { return palette[i%len(palette)] }

func shapeOf(i int) vgdraw.GlyphDrawer {
	shapes := []vgdraw.GlyphDrawer{vgdraw.CircleGlyph{}, vgdraw.BoxGlyph{}, vgdraw.PyramidGlyph{}}
	return shapes[i%len(shapes)]
}

func newPicture(title string, width, height vg.Length) *picture {
	p := &picture{plot: plot.New(), legend: plot.NewLegend(), width: width, height: height}
	sans := func(f *font.Font, size font.Length) { f.Variant, f.Size = "Sans", size }
	p.plot.Title.Text, p.plot.Title.Padding = title, vg.Points(10)
	sans(&p.plot.Title.TextStyle.Font, 12)
	for _, a := range []*plot.Axis{&p.plot.X, &p.plot.Y} {
		sans(&a.Label.TextStyle.Font, 10)
		sans(&a.Tick.Label.Font, 9)
		a.Label.Padding, a.Padding, a.Color, a.Tick.Color = vg.Points(4), 0, ink, ink
	}
	sans(&p.legend.TextStyle.Font, 9)
	p.legend.Top, p.legend.Left, p.legend.Padding = true, true, vg.Points(3)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, faint
	p.plot.Add(grid)
	return p
}

// scale makes an axis as asked for.
func (p *picture) scale(to *plot.Axis, a axis) {
	to.Label.Text = a.label
	if a.log {
		to.Scale, to.Tick.Marker = plot.LogScale{}, logTicks{}
	} else {
		to.Tick.Marker = linearTicks{}
	}
}

// fit gives the axes room, when all data is there. What is not logarithmic begins at 0, so that what looks like half is
// half.
func (p *picture) fit() {
	for _, a := range []*plot.Axis{&p.plot.X, &p.plot.Y} {
		if _, ok := a.Scale.(plot.LogScale); ok {
			a.Min, a.Max = a.Min/1.2, a.Max*1.2
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

// write draws the picture into a file; what its name ends in is the format.
func (p *picture) write(path string) error {
	format := filepath.Ext(path)
	if len(format) < 2 {
		return fmt.Errorf("no format in %q", path)
	}
	beside := vg.Length(0)
	if p.entries > 1 {
		beside = p.legend.Rectangle(vgdraw.Canvas{}).Size().X + 2*margin
	}
	canvas, err := vgdraw.NewFormattedCanvas(p.width+beside, p.height, format[1:])
	if err != nil {
		return err
	}
	c := vgdraw.New(canvas)
	c.SetColor(color.White) // also in the dark mode of who looks at it
	c.Fill(c.Path())
	c = vgdraw.Crop(c, margin, -margin, margin, -margin)
	p.plot.Draw(vgdraw.Crop(c, 0, -beside, 0, 0))
	if p.entries > 1 {
		p.legend.Draw(vgdraw.Crop(c, p.width-margin, 0, 0, -2*margin))
	}
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
func drawCharts(dir, scenario string, results []Result, charts []chart) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	write := func(name string, p *picture, err error) error {
		if err != nil || p == nil {
			return err
		}
		name = scenario + "-" + name + ".svg"
		names = append(names, name)
		return p.write(filepath.Join(dir, name))
	}
	p, err := ratesPicture(scenario, results)
	if err := write("rates", p, err); err != nil {
		return names, err
	}
	p, err = latenciesPicture(scenario, results)
	if err := write("latencies", p, err); err != nil {
		return names, err
	}
	for _, c := range charts {
		p, err := c.picture()
		if err := write(c.name, p, err); err != nil {
			return names, fmt.Errorf("chart %s: %w", c.name, err)
		}
	}
	return names, nil
}

// linearTicks are labelled at multiples of 1, 2 or 5, about six of them.
type linearTicks struct{}

func (linearTicks) Ticks(low, high float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 4))))
	for _, times := range []float64{5, 2} {
		if (high-low)/(step*times) >= 4 {
			step *= times
			break
		}
	}
	var list []plot.Tick
	for i := math.Ceil(low / step); i*step <= high*(1+1e-9); i++ {
		list = append(list, plot.Tick{Value: i * step, Label: short(i * step)})
	}
	return list
}

// logTicks are labelled at powers of ten; at 2 and 5 too where there are less than three of those.
type logTicks struct{}

func (logTicks) Ticks(low, high float64) []plot.Tick {
	wide := math.Log10(high/low) >= 3
	var list []plot.Tick
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high; e++ {
		for i := 1.0; i < 10; i++ {
			tick := plot.Tick{Value: i * math.Pow(10, e)}
			if i == 1 || !wide && (i == 2 || i == 5) {
				tick.Label = short(tick.Value)
			}
			list = append(list, tick)
		}
	}
	return list
}

// short writes 12000 as 12k.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 999_500:
		return fmt.Sprintf("%.3gM", v/1e6)
	case a >= 9_995:
		return fmt.Sprintf("%.3gk", v/1e3)
	case a >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}
