package main

import (
	"io"
	"os"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress tells people how far a run is, if the output is a terminal: a file or a pipe gets the results alone.
type progress struct {
	w   io.Writer
	bar *progressbar.ProgressBar
}

func newProgress(out, w io.Writer) *progress {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &progress{w: w}
	}
	return &progress{}
}

// begin starts over with a number of steps.
func (p *progress) begin(what string, steps int) {
	p.end()
	if p.w != nil {
		p.bar = progressbar.NewOptions(steps, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
	}
}

func (p *progress) add() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}
