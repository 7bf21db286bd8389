package soak

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A sample is what memory is in use at one moment, in bytes.
type sample struct {
	at      time.Duration
	heap    float64 // HeapInuse after a collection
	rss     float64 // the process's; 0: not known
	backend float64 // what the average worker session's backend has for itself; 0: not known
}

// sample takes samples until ended is closed.
func (g *gauge) sample(ctx context.Context, every time.Duration, ended <-chan struct{}) error {
	start := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ended:
			return nil
		case <-tick.C:
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		backend, err := g.backends(ctx)
		if err != nil {
			return err
		}
		g.samples = append(g.samples, sample{
			at: time.Since(start), heap: float64(m.HeapInuse), rss: status(os.Getpid(), "VmRSS"), backend: backend,
		})
	}
}

// backends returns the memory that the average backend of the workers has for itself, if the server runs on this
// machine and under Linux.
func (g *gauge) backends(ctx context.Context) (float64, error) {
	rows, err := g.conn.Query(ctx, `SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE '`+workerName+`%'`)
	if err != nil {
		return 0, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, err
	}
	sum, n := 0.0, 0
	for _, pid := range pids {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(name)) != "postgres" { // another machine's number
			continue
		}
		if b := status(pid, "RssAnon"); b > 0 {
			sum, n = sum+b, n+1
		}
	}
	return sum / float64(max(n, 1)), nil
}

// status reads a size from /proc/pid/status, in bytes; 0 if there is none.
func status(pid int, field string) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				return 0
			}
			return kb * 1024
		}
	}
	return 0
}

// A Trend is how one kind of memory went over the last two thirds of the samples; the first third is for caches to
// fill.
type Trend struct {
	What    string
	Samples int
	First   float64 // bytes, of the line that fits best
	Last    float64
	PerHour float64 // its slope
	Mean    float64
	Slack   float64 // how much between first and last counts as none
}

// Flat reports whether the memory does not grow.
func (t Trend) Flat() bool { return t.Last-t.First <= t.Slack }

const mib = 1 << 20

// minSamples are needed for a trend.
const minSamples = 12

// trends fits a line to each kind of memory.
func (g *gauge) trends() (list []Trend) {
	if len(g.samples) < minSamples {
		return nil
	}
	for _, kind := range []struct {
		what  string
		value func(sample) float64
		slack float64 // at least; and a fiftieth of the mean
	}{
		{"Go heap in use after a collection", func(s sample) float64 { return s.heap }, 2 * mib},
		{"resident set of the process", func(s sample) float64 { return s.rss }, 8 * mib},
		{"private memory of a worker's backend, on average", func(s sample) float64 { return s.backend }, mib},
	} {
		var xs, ys []float64
		for _, s := range g.samples[len(g.samples)/3:] {
			if v := kind.value(s); v > 0 {
				xs, ys = append(xs, s.at.Seconds()), append(ys, v)
			}
		}
		if len(xs) < minSamples/2 {
			continue
		}
		slope, at := fit(xs, ys)
		mean := 0.0
		for _, y := range ys {
			mean += y / float64(len(ys))
		}
		list = append(list, Trend{
			What: kind.what, Samples: len(xs), First: at(xs[0]), Last: at(xs[len(xs)-1]), PerHour: slope * 3600,
			Mean: mean, Slack: max(kind.slack, mean/50),
		})
	}
	return list
}

// fit returns the line of least squares: its slope, and its value at x.
func fit(xs, ys []float64) (slope float64, at func(x float64) float64) {
	n := float64(len(xs))
	var mx, my, sxy, sxx float64
	for i := range xs {
		mx, my = mx+xs[i]/n, my+ys[i]/n
	}
	for i := range xs {
		sxy += (xs[i] - mx) * (ys[i] - my)
		sxx += (xs[i] - mx) * (xs[i] - mx)
	}
	if sxx > 0 {
		slope = sxy / sxx
	}
	return slope, func(x float64) float64 { return my + slope*(x-mx) }
}
