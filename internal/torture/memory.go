package torture

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/internal/pause"
)

const mib = 1 << 20

// memories are the kinds of memory that a worker looks at, and how much more at the end counts as none, at least; or a
// fiftieth of the mean.
var memories = []struct {
	word, text string
	slack      float64
}{
	{"heap", "Go heap in use after a collection", 2 * mib},
	{"rss", "resident set of the process", 8 * mib},
	{"backend", "private memory of a backend, on average", mib},
}

// sampleMemory logs how much memory the process and its backends have, for ever.
func sampleMemory(pool *pgxpool.Pool, name string, book *journal) {
	for ctx := context.Background(); pause.For(ctx, 5*time.Second) == nil; {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		book.write(evMemory, 0, 0, 0, int64(m.HeapInuse), "heap")
		book.write(evMemory, 0, 0, 0, status(os.Getpid(), "VmRSS"), "rss")
		book.write(evMemory, 0, 0, 0, backends(ctx, pool, name), "backend")
	}
}

// backends returns the memory that the average backend of a worker has for itself, if the server runs on this machine
// and under Linux; 0 otherwise.
func backends(ctx context.Context, pool *pgxpool.Pool, name string) int64 {
	rows, _ := pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1", name)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0
	}
	sum, n := int64(0), int64(0)
	for _, pid := range pids {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if strings.TrimSpace(string(comm)) != "postgres" { // another machine's number
			continue
		}
		if b := status(pid, "RssAnon"); b > 0 {
			sum, n = sum+b, n+1
		}
	}
	return sum / max(n, 1)
}

// status reads a size from /proc/pid/status, in bytes; 0 if there is none.
func status(pid int, field string) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, text2, _ := strings.Cut(string(text), "\n"+field+":")
	if words := strings.Fields(text2); len(words) > 0 {
		if kb, err := strconv.ParseInt(words[0], 10, 64); err == nil {
			return kb * 1024
		}
	}
	return 0
}

// A sample is how much memory there was at a time, in bytes.
type sample struct{ at, bytes int64 }

// A Trend is how one kind of memory went over the last two thirds of the samples; the first third is for caches to
// fill.
type Trend struct {
	What    string  `json:"what"`
	Samples int     `json:"samples"`
	First   float64 `json:"first"` // bytes, of the line that fits best
	Last    float64 `json:"last"`
	PerHour float64 `json:"per_hour"` // its slope
	Flat    bool    `json:"flat"`     // there is not much more at the end
}

// minSamples are needed for a trend.
const minSamples = 12

// newTrend fits a line to samples. With too few it has none.
func newTrend(what string, list []sample, slack float64) Trend {
	t := Trend{What: what}
	if len(list) < minSamples {
		return t
	}
	list = list[len(list)/3:]
	t.Samples = len(list)
	n := float64(len(list))
	var mx, my, sxy, sxx float64
	for _, s := range list {
		mx, my = mx+float64(s.at)/n, my+float64(s.bytes)/n
	}
	for _, s := range list {
		dx := float64(s.at) - mx
		sxy, sxx = sxy+dx*(float64(s.bytes)-my), sxx+dx*dx
	}
	slope := sxy / max(sxx, 1)
	t.First, t.Last = my+slope*(float64(list[0].at)-mx), my+slope*(float64(list[len(list)-1].at)-mx)
	t.PerHour = slope * float64(time.Hour)
	t.Flat = t.Last-t.First <= max(slack, my/50)
	return t
}

func (t Trend) String() string {
	verdict := "flat"
	if !t.Flat {
		verdict = "GROWS"
	}
	return fmt.Sprintf("%s, MiB: from %.1f to %.1f in %d samples, %+.1f an hour: %s", t.What, t.First/mib, t.Last/mib,
		t.Samples, t.PerHour/mib, verdict)
}
