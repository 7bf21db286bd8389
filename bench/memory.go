package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/pgfifo/pgfifo/internal/pause"
)

// memory asks what a worker's memory grows with. All groups are ready, with a job each. What is measured is the
// resident memory of this process: the worker's, and that of what checks its work, which is told apart.
type memory struct {
	groups []int // ready, with one job each; the fewest first
	lanes  int
}

func (s *memory) run(ctx context.Context, b *bench) error {
	rss := chart{
		name: "rss", title: "Memory of a worker", x: axis{label: "part of the groups that is done"},
		y: axis{label: "resident MiB"},
	}
	var first Result
	for _, groups := range s.groups {
		d := &draining{curve: series{name: fmt.Sprintf("%d groups", groups)}}
		r, err := d.run(ctx, b, groups, s.lanes)
		if err != nil {
			return fmt.Errorf("%d groups: %w", groups, err)
		}
		if len(first.Params) == 0 {
			first = r
		} else {
			d.compare(&r, first)
		}
		b.report(r)
		rss.series = append(rss.series, d.curve)
	}
	b.plot(rss)
	return nil
}

// A draining is a look at memory while a number of groups is worked.
type draining struct {
	curve series
	most  float64
}

const mib = 1 << 20

// accountBytes is what the ledger has of a group.
const accountBytes = 16

func (d *draining) run(ctx context.Context, b *bench, groups, lanes int) (Result, error) {
	c := &crew{db: b.database, groups: groups, lanes: lanes}
	if err := c.stock(ctx, groups); err != nil {
		return Result{}, err
	}
	before, err := restingResident(ctx)
	if err != nil {
		return Result{}, err
	}
	var took time.Duration
	err = beside(ctx, func(ctx context.Context) (err error) {
		took, err = c.work(ctx, groups)
		return err
	}, func(over context.Context) error { return d.watch(over, c, groups) })
	if err != nil {
		return Result{}, err
	}
	after, err := restingResident(ctx)
	r := Result{
		System: "pgfifo", Params: c.params(), Rate: float64(groups) / took.Seconds(),
	}
	r.Extra = map[string]float64{
		"rss_before_mib": before, "rss_max_mib": d.most, "rss_after_mib": after,
		"ledger_mib": float64(groups) * accountBytes / mib,
	}
	return r, err
}

func (d *draining) watch(over context.Context, c *crew, groups int) error {
	for over.Err() == nil {
		now, err := resident(context.WithoutCancel(over))
		if err != nil {
			return err
		}
		d.most = max(d.most, now)
		d.curve.add(float64(c.ledger.count.Load())/float64(groups), now)
		_ = pause.For(over, 100*time.Millisecond)
	}
	return nil
}

// restingResident is the resident memory of this process in MiB, once what is garbage has been given back.
func restingResident(ctx context.Context) (float64, error) {
	runtime.GC()
	debug.FreeOSMemory()
	return resident(ctx)
}

func resident(ctx context.Context) (float64, error) {
	proc := process.Process{Pid: int32(os.Getpid())}
	info, err := proc.MemoryInfoWithContext(ctx)
	if err != nil {
		return 0, fmt.Errorf("resident memory: %w", err)
	}
	return float64(info.RSS) / mib, nil
}

// compare is with the fewest groups, both without the ledger.
func (d *draining) compare(r *Result, first Result) {
	own := func(r Result) float64 { return r.Extra["rss_max_mib"] - r.Extra["ledger_mib"] }
	r.RatioTo = fmt.Sprintf("resident with %v groups, both without the ledger", first.Params["groups"])
	r.Ratio = own(*r) / own(first)
	r.Goal = atMost(2, "ratio")
}
