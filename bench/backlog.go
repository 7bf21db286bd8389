package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/migrations"
)

// backlog asks whether the rate depends on how many jobs wait, and in how many groups the most of them do. Each backlog
// has a schema of its own, and what a round takes from it is put back after the round.
type backlog struct {
	sizes, spread               string
	groups, lanes, jobs, rounds int
	naive                       time.Duration
}

func (s *backlog) flags(f *flag.FlagSet) {
	f.StringVar(&s.sizes, "backlogs", "10000,100000,1000000", "jobs that wait; 10000000 takes minutes to fill")
	f.IntVar(&s.groups, "groups", 1000, "message groups; never more than jobs")
	f.StringVar(&s.spread, "spread", "10,1000,100000,1000000", "message groups of the longest backlog, beside -groups")
	f.IntVar(&s.lanes, "lanes", 16, "jobs at once; fewer groups than that are fewer at once")
	f.IntVar(&s.jobs, "jobs", 54_000, "jobs to work from each backlog, in all rounds together")
	f.IntVar(&s.rounds, "rounds", 6, "rounds")
	f.DurationVar(&s.naive, "naive", 10*time.Second,
		"the time after which naive is stopped at each backlog; 0: without naive")
}

// A heap is one backlog.
type heap struct {
	size, groups   int
	system         *system
	crew           *crew
	looking, total float64 // milliseconds of the server
}

func (s *backlog) run(ctx context.Context, b *bench) error {
	each := max(s.jobs/s.rounds, 1)
	sizes, err := numbers("backlog", s.sizes, each) // what a round takes must be there
	if err != nil {
		return err
	}
	if len(sizes) == 0 {
		return errors.New("no backlog")
	}
	spread, err := numbers("groups", s.spread, 1)
	if err != nil {
		return err
	}
	counted := b.openStatements(ctx) == nil
	if !counted {
		b.notef("the server does not count statements: without discovery_share")
	}
	bySize, byGroups, err := s.heaps(ctx, b, sizes, spread, counted)
	if err != nil {
		return err
	}
	if err := hold(ctx, b, s.rounds, each, slices.Concat(endToEnd(bySize), endToEnd(byGroups))); err != nil {
		return err
	}
	if s.naive > 0 {
		return s.beside(ctx, b, sizes)
	}
	return nil
}

// heaps fills the backlogs of both axes: so many jobs in the same number of groups, and the most jobs in so many
// groups.
func (s *backlog) heaps(
	ctx context.Context, b *bench, sizes, spread []int, counted bool,
) (bySize, byGroups []*heap, err error) {
	for _, size := range sizes {
		h, err := s.heap(ctx, b, fmt.Sprintf("pgfifo at %d", size), size, min(s.groups, size), counted)
		if err != nil {
			return nil, nil, err
		}
		bySize = append(bySize, h)
	}
	most := bySize[len(bySize)-1]
	for _, groups := range spread {
		groups = min(groups, most.size)
		h := most
		switch {
		case len(byGroups) > 0 && groups == byGroups[len(byGroups)-1].groups:
			continue // so many jobs are not there
		case groups != most.groups:
			if h, err = s.heap(ctx, b, fmt.Sprintf("pgfifo in %d groups", groups), most.size, groups,
				counted); err != nil {
				return nil, nil, err
			}
		}
		byGroups = append(byGroups, h)
	}
	return bySize, byGroups, nil
}

func (s *backlog) heap(ctx context.Context, b *bench, name string, size, groups int, counted bool) (*heap, error) {
	schema := fmt.Sprintf("backlog_%d_%d", size, groups)
	h := &heap{size: size, groups: groups, crew: &crew{db: b.database, groups: groups, lanes: s.lanes}}
	if err := h.crew.stock(ctx, schema, size); err != nil {
		return nil, err
	}
	// Their rows are there, as after their first jobs: what making them costs is paid once.
	rows := fmt.Sprintf("INSERT INTO %s.queue_groups (queue, group_id) "+
		"SELECT '%s', "+groupSQL+" FROM generate_series(0, %d) n",
		schema, queue, "n", groups-1)
	if err := b.exec(ctx, rows, "VACUUM ANALYZE "+schema+".queue_groups"); err != nil {
		return nil, err
	}
	h.system = &system{
		name: name, params: map[string]any{"backlog": size, "groups": groups, "lanes": s.lanes},
		work: func(ctx context.Context, n int) (took time.Duration, err error) {
			if counted {
				if err := b.resetStatements(ctx); err != nil {
					return 0, err
				}
			}
			if err := b.flush(ctx); err != nil {
				return 0, err
			}
			if took, err = h.crew.work(ctx, n); err != nil {
				return 0, err
			}
			if counted {
				err = h.share(ctx, b.database)
			}
			// What was taken, and not just n: the lanes were in the middle of others.
			refill := int(h.crew.ledger.count.Load()) + size - int(h.crew.filled)
			return took, errors.Join(err, h.crew.fill(ctx, refill))
		},
	}
	return h, nil
}

// share adds up how much of the server's time went into looking for work.
func (h *heap) share(ctx context.Context, db *database) error {
	list, err := db.statements(ctx)
	for _, s := range list {
		if s.discovers() {
			h.looking += s.Total
		}
		if !strings.HasPrefix(s.label(), "SELECT count(*) FROM "+h.crew.table()) { // the audit
			h.total += s.Total
		}
	}
	return err
}

// endToEnd compares each with the first. From one end to the other, the rate is to stay.
func endToEnd(heaps []*heap) (contests []contest) {
	for i, h := range heaps {
		c := contest{system: h.system, extra: h.extra}
		if i > 0 {
			c.to = heaps[0].system
		}
		if i > 0 && i == len(heaps)-1 {
			c.goal = atLeast(0.9)
		}
		contests = append(contests, c)
	}
	return contests
}

func (h *heap) extra() map[string]float64 {
	if h.total == 0 {
		return nil
	}
	return map[string]float64{"discovery_share": h.looking / h.total}
}

// beside has naive work each backlog once, for a while: it is so much slower that rounds would tell nothing more.
func (s *backlog) beside(ctx context.Context, b *bench, sizes []int) error {
	var first *system
	rates := make(rounds)
	for _, size := range sizes {
		q := newNaive(b.database, min(s.groups, size), s.lanes)
		if err := q.prepare(ctx); err != nil {
			return err
		}
		sys := &system{name: fmt.Sprintf("naive at %d", size), params: map[string]any{
			"backlog": size, "groups": q.groups, "lanes": s.lanes,
		}}
		took, err := drainRival(b.database, q, s.naive)(ctx, size)
		switch {
		case errors.Is(err, errNone):
			b.notef("%s: no job in %v", sys.name, s.naive)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", sys.name, err)
		}
		rates[sys] = append(rates[sys], float64(size)/took.Seconds())
		r := rates.result(sys, first)
		if first == nil {
			first = sys
		}
		r.Extra = q.extra()
		b.report(r)
	}
	return nil
}

// numbers reads a list like 10,1000, of numbers that are not less than the least, and sorts it.
func numbers(what, list string, least int) (ns []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < least {
			return nil, fmt.Errorf("%s %q: not a number, or less than %d", what, text, least)
		}
		ns = append(ns, n)
	}
	slices.Sort(ns)
	return slices.Compact(ns), nil
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return migrations.Up(ctx, pool, &migrations.Config{Schema: schema})
}
