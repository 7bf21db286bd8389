package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// skew asks what a few busy groups do to the others: first with everything there before the workers, who are then busy
// to the end, and then with messages that arrive at a part of the rate that this reached.
type skew struct {
	jobs, groups, lanes, rounds int
	load                        float64
	measure                     time.Duration
}

func (s *skew) run(ctx context.Context, b *bench) error {
	var sides []*side
	for _, sh := range skews {
		sides = append(sides, newSide(sh))
	}
	for range s.rounds {
		for _, d := range sides {
			if err := s.round(ctx, b, d); err != nil {
				return fmt.Errorf("%s: %w", d.shape.name, err)
			}
		}
	}
	for _, d := range sides {
		b.report(d.before.result(s, d.shape, "all there before"))
		b.report(d.arriving.result(s, d.shape, fmt.Sprintf("%.2g of that rate arrives", s.load)))
	}
	return nil
}

// A side is what was seen of one distribution.
type side struct {
	shape            shape
	before, arriving *queueing
}

func newSide(sh shape) *side { return &side{sh, newQueueing(), newQueueing()} }

func (s *skew) round(ctx context.Context, b *bench, d *side) error {
	t := newTraffic(s.jobs/s.rounds, s.groups, d.shape)
	took, err := s.pass(ctx, b, t, true)
	if err != nil {
		return err
	}
	d.before.add(t, took, 2*s.lanes)

	rate := s.load * float64(len(t.passages)) / took.Seconds()
	t = newTraffic(max(int(rate*s.measure.Seconds()), 1), s.groups, d.shape)
	t.arrive(rate)
	if took, err = s.pass(ctx, b, t, false); err != nil {
		return err
	}
	d.arriving.add(t, took, 0)
	return nil
}

// pass has a worker work the whole traffic.
func (s *skew) pass(ctx context.Context, b *bench, t *traffic, before bool) (time.Duration, error) {
	c := &crew{db: b.database, groups: s.groups, lanes: s.lanes, handler: t.handle}
	c.prepare()
	if before {
		if err := errors.Join(t.load(ctx, c), c.vacuum(ctx)); err != nil {
			return 0, err
		}
	}
	y := t.tally(0)
	err := c.shift(ctx, y, func(ctx context.Context) error {
		if before {
			return nil
		}
		if err := c.connected(ctx); err != nil {
			return err
		}
		return t.send(ctx, c)
	})
	return y.took(), err
}

// A queueing adds up the waits of several passes.
type queueing struct {
	all, cold *histogram
	count     int
	took      time.Duration

	rounds [maxRounds + 1]int // waits while lanes were busy, by rounds
	// The first jobs of their groups among them; of those, the ones of more than one round.
	heads, late int
	left        int // the most groups that had jobs left when a wait of more than one round ended
}

func newQueueing() *queueing { return &queueing{all: newHistogram(), cold: newHistogram()} }

// add counts rounds as long as so many groups have jobs left; 0: not at all.
func (q *queueing) add(t *traffic, took time.Duration, groups int) {
	ends, busy := t.ends(), int64(-1)
	if groups > 0 {
		busy = contested(ends, groups)
	}
	q.count += len(t.passages)
	q.took += took
	for _, w := range t.waits() {
		q.all.record(w.sinceDue)
		if !w.hot {
			q.cold.record(w.sinceDue)
		}
		if w.started.starts > busy {
			continue
		}
		q.rounds[w.rounds]++
		if w.rounds > 1 {
			q.left = max(q.left, left(ends, w.started.starts))
		}
		if w.number == 0 {
			q.heads++
			if w.rounds > 1 {
				q.late++
			}
		}
	}
}

// result has the waits of all groups as its latencies; the ratio is that of the cold groups' p99.
func (q *queueing) result(s *skew, sh shape, load string) Result {
	r := Result{System: "pgfifo", Rate: float64(q.count) / q.took.Seconds(), Params: map[string]any{
		"shape": sh.name, "load": load, "groups": s.groups, "lanes": s.lanes,
	}}
	r.latencies(q.all)
	cold := q.cold.millis(99)
	r.RatioTo, r.Ratio = "p99 of all, by the cold groups' p99", cold/r.P99
	r.more("cold_p50_ms", q.cold.millis(50))
	r.more("cold_p99_ms", cold)
	r.more("cold_max_ms", q.cold.millis(100))
	q.tellRounds(&r)
	return r
}

// tellRounds has nothing to tell if no lane had to choose.
func (q *queueing) tellRounds(r *Result) {
	total, over, most := 0, 0, 0
	for rounds, n := range q.rounds {
		total += n
		if n > 0 {
			most = rounds
		}
		if rounds > 1 {
			over += n
		}
	}
	if total == 0 {
		return
	}
	p99, seen := 0, q.rounds[0]
	for seen*100 < total*99 {
		p99++
		seen += q.rounds[p99]
	}
	r.Extra["rounds_max"], r.Extra["rounds_p99"] = float64(most), float64(p99)
	r.Extra["over_one_round"], r.Extra["over_with_groups_left"] = float64(over)/float64(total), float64(q.left)
	if q.heads > 0 {
		r.Extra["first_jobs_over_one_round"] = float64(q.late) / float64(q.heads)
	}
	r.Goal = atMost(1, "rounds_max")
}
