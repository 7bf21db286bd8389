package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress tells people how far a run is, with the time that went by and the time that is left, if the output is a
// terminal: a file or a pipe gets the results alone.
type progress struct {
	w    io.Writer
	bar  *progressbar.ProgressBar
	stop func() // the clock of the bar
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
		p.bar = progressbar.NewOptions(max(steps, 1), progressbar.OptionSetWriter(p.w),
			progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionSetElapsedTime(true),
			progressbar.OptionSetPredictTime(true),
			progressbar.OptionClearOnFinish(), progressbar.OptionSetWidth(30))
		p.stop = tick(p.bar)
	}
}

// tick shows the time that goes by during a long step too.
func tick(bar *progressbar.ProgressBar) (stop func()) {
	clock, done, ended := time.NewTicker(time.Second), make(chan struct{}), make(chan struct{})
	_ = bar.RenderBlank()
	go func() {
		defer close(ended)
		defer clock.Stop()
		for {
			select {
			case <-clock.C:
				_ = bar.RenderBlank()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

func (p *progress) add() {
	if p.bar != nil {
		_ = p.bar.Add(1)
	}
}

func (p *progress) end() {
	if p.bar != nil {
		p.stop()
		_ = p.bar.Clear()
		p.bar = nil
	}
}
