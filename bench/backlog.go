package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// backlog asks whether the rate depends on how many jobs wait, and in how many groups the most of them do. Each backlog
// has a schema of its own, and what a round takes from it is put back after the round.
type backlog struct {
	sizes, spread               []int // jobs that wait, and message groups of the most of them
	groups, lanes, jobs, rounds int
	naive                       time.Duration // after which it is stopped at each backlog
}

// A heap is one backlog.
type heap struct {
	size, groups   int
	system         *system
	crew           *crew
	looking, total float64 // milliseconds of the server
}

func (s *backlog) run(ctx context.Context, b *bench) error {
	b.tryStatements(ctx)
	bySize, byGroups, err := s.heaps(ctx, b)
	if err != nil {
		return err
	}
	contests := slices.Concat(endToEnd(bySize), endToEnd(byGroups))
	if err := hold(ctx, b, s.rounds, max(s.jobs/s.rounds, 1), contests); err != nil {
		return err
	}
	return s.beside(ctx, b)
}

// heaps fills the backlogs of both axes: so many jobs in the same number of groups, and the most jobs in so many
// groups.
func (s *backlog) heaps(ctx context.Context, b *bench) (bySize, byGroups []*heap, err error) {
	for _, size := range s.sizes {
		h, err := s.heap(ctx, b, fmt.Sprintf("pgfifo at %d", size), size, s.groups)
		if err != nil {
			return nil, nil, err
		}
		bySize = append(bySize, h)
	}
	most := bySize[len(bySize)-1]
	for _, groups := range s.spread {
		h := most
		if groups != most.groups {
			h, err = s.heap(ctx, b, fmt.Sprintf("pgfifo in %d groups", groups), most.size, groups)
			if err != nil {
				return nil, nil, err
			}
		}
		byGroups = append(byGroups, h)
	}
	return bySize, byGroups, nil
}

func (s *backlog) heap(ctx context.Context, b *bench, name string, size, groups int) (*heap, error) {
	c := &crew{db: b.database, groups: groups, lanes: s.lanes}
	h := &heap{size: size, groups: groups, crew: c}
	if err := c.stock(ctx, size); err != nil {
		return nil, err
	}
	err := errors.Join(b.makeGroups(ctx, c.schema, groups), b.exec(ctx, "VACUUM ANALYZE "+c.schema+".queue_groups"))
	h.system = &system{name: name, params: c.params(), work: func(ctx context.Context, n int) (time.Duration, error) {
		if err := errors.Join(b.resetStatements(ctx), b.flush(ctx)); err != nil {
			return 0, err
		}
		took, err := c.work(ctx, n)
		if err = errors.Join(err, h.share(ctx, b.database)); err != nil {
			return 0, err
		}
		// What was taken, and not just n: the lanes were in the middle of others.
		return took, c.fill(ctx, int(c.ledger.count.Load())+size-int(c.filled))
	}}
	h.system.params["backlog"] = size
	return h, err
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
		c := contest{system: h.system, fill: h.tell}
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

func (h *heap) tell(r *Result, _ rounds) {
	if h.total > 0 {
		r.more("discovery_share", h.looking/h.total)
	}
}

// beside has naive work each backlog once, for a while: it is so much slower that rounds would tell nothing more.
func (s *backlog) beside(ctx context.Context, b *bench) error {
	var first *system
	rates := make(rounds)
	for _, size := range s.sizes {
		q := newNaive(b.database, s.groups, s.lanes)
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
		q.tell(&r, rates)
		b.report(r)
	}
	return nil
}
