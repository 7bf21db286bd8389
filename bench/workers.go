package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/shirou/gopsutil/v4/cpu"
)

// workers asks what part of its time a lane spends in its handlers. Handlers wait; with as many lanes as they could use
// the machine up, they are compared with lanes that lose no time. Beside them stands the ceiling: the same waits with a
// one-row update in between, which is what a durable commit a job costs in any case.
type workers struct {
	lanes   []int
	handler time.Duration // how long it waits
	measure time.Duration // time of a round, if no time were lost
	groups  int
	rounds  int
}

// illustration are the rates that the proof of concept shows for these numbers of lanes: 20/s each at best.
var illustration = map[int]float64{1: 20, 10: 195, 50: 950, 100: 1800}

// fullCPU is the part of the machine's time from where on the CPU decides, and no goal applies.
const fullCPU = 0.9

func (s *workers) run(ctx context.Context, b *bench) error {
	if err := prepareCeiling(ctx, b.database); err != nil {
		return err
	}
	var contests []contest
	for _, lanes := range s.lanes {
		pgfifo, ceiling, err := s.teams(ctx, b, lanes)
		if err != nil {
			return err
		}
		contests = append(contests,
			contest{system: pgfifo.system, fill: func(r *Result, rates rounds) {
				s.tell(r, pgfifo, rates)
				r.more("of_ceiling", rates.ratio(pgfifo.system, ceiling.system))
				if rate, ok := illustration[lanes]; ok {
					r.more("poc_jobs_per_s", rate)
				}
				if median(pgfifo.cpu) < fullCPU {
					r.Goal = atLeast(0.98)
				}
			}},
			contest{system: ceiling.system, fill: func(r *Result, rates rounds) { s.tell(r, ceiling, rates) }})
	}
	b.notef("where the CPU is full (%.0f%% or more), there is no goal", 100*fullCPU)
	return hold(ctx, b, s.rounds, max(int(s.measure/s.handler), 1), contests)
}

// tell compares with lanes that lose no time. The unit of the rates is jobs per lane.
func (s *workers) tell(r *Result, t *team, rates rounds) {
	each, mean := rates.rate(t.system), t.stint.mean().Seconds()
	r.Rate, r.Ratio = each*float64(t.lanes), each*s.handler.Seconds()
	r.RatioTo = fmt.Sprintf("%d x %.4g/s", t.lanes, 1/s.handler.Seconds())
	r.Extra = map[string]float64{
		"cpu": median(t.cpu), "handler_ms": mean * 1000, "of_true_handler": each * mean,
		"between_ms": (1/each - mean) * 1000,
	}
}

// A team is one system with so many lanes.
type team struct {
	system *system
	lanes  int
	stint  *stint
	cpu    []float64 // the part of the machine's processor time that was used, by whomever, in each round
}

func (s *workers) team(name string, lanes int) *team {
	return &team{lanes: lanes, stint: &stint{want: s.handler}, system: &system{
		name: name, params: map[string]any{"lanes": lanes, "handler": s.handler.String(), "groups": s.groups},
	}}
}

// works sets the work of the system. The time of the processors counts from its first handler to its end.
func (t *team) works(work workFunc) {
	t.system.work = func(ctx context.Context, each int) (time.Duration, error) {
		t.stint.first = func() { _, _ = cpu.Percent(0, false) }
		took, err := work(ctx, each*t.lanes)
		if err != nil {
			return 0, err
		}
		used, err := cpu.Percent(0, false)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		t.cpu = append(t.cpu, used[0]/100)
		return took, nil
	}
}

// teams are both systems with so many lanes.
func (s *workers) teams(ctx context.Context, b *bench, lanes int) (pgfifo, ceiling *team, err error) {
	pgfifo, ceiling = s.team("pgfifo", lanes), s.team("ceiling (Go)", lanes)
	ceiling.works((&goCeiling{db: b.database, lanes: lanes, before: ceiling.stint.work}).work)
	c := &crew{db: b.database, groups: s.groups, lanes: lanes}
	c.handler = func(ctx context.Context, _ *fifo.Job) error { return pgfifo.stint.work(ctx) }
	pgfifo.works(func(ctx context.Context, n int) (time.Duration, error) {
		// No group runs dry before the end: then the lanes would wait for jobs.
		err := c.fill(ctx, n+lanes+s.groups-int(c.filled-c.ledger.count.Load()))
		if err = errors.Join(err, c.vacuum(ctx)); err != nil {
			return 0, err
		}
		return c.work(ctx, n)
	})
	return pgfifo, ceiling, c.own(ctx)
}

// A stint is a handler that waits, for as long as it should on average. Timers are late, in an idle process by up to a
// millisecond: as they are, 5 ms would be 5.5, and one would measure timers. What they were late lately is taken off.
type stint struct {
	want  time.Duration
	first func() // called once, when the first one begins; may be nil

	mu    sync.Mutex
	late  float64 // moving average, in nanoseconds
	total time.Duration
	count int64
}

// lateness is the weight of the last wait in the average.
const lateness = 1.0 / 32

func (s *stint) work(ctx context.Context) error {
	s.mu.Lock()
	if s.first != nil {
		s.first()
		s.first = nil
	}
	asked := max(s.want-time.Duration(s.late), s.want/2)
	s.mu.Unlock()
	begin := time.Now()
	err := pause.For(ctx, asked)
	took := time.Since(begin)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late += (float64(took-asked) - s.late) * lateness
	s.total += took
	s.count++
	return err
}

// mean is how long they really waited.
func (s *stint) mean() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total / time.Duration(max(s.count, 1))
}
