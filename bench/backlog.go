package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/migrations"
)

// backlog asks whether the rate depends on how many jobs wait. Each backlog has a schema of its own, and what a round
// takes from it is put back after the round.
type backlog struct {
	sizes                       string
	groups, lanes, jobs, rounds int
}

func (*backlog) about() string { return "rate at short and long backlogs" }

func (s *backlog) flags(f *flag.FlagSet) {
	f.StringVar(&s.sizes, "backlogs", "10000,1000000", "jobs that wait, the smallest first: 10000,100000,1000000,10000000")
	f.IntVar(&s.groups, "groups", 1000, "message groups, 10 to 1000000; never more than jobs")
	f.IntVar(&s.lanes, "lanes", 16, "jobs at once")
	f.IntVar(&s.jobs, "jobs", 30_000, "jobs to work from each backlog, in all rounds together")
	f.IntVar(&s.rounds, "rounds", 6, "rounds")
}

func (*backlog) settings() map[string]string { return countStatements }

// A heap is one backlog.
type heap struct {
	system         *system
	crew           *crew
	looking, total float64 // milliseconds of the server
}

func (s *backlog) run(ctx context.Context, b *bench) error {
	counted := b.openStatements(ctx) == nil
	if !counted {
		b.notef("the server does not count statements: without discovery_share")
	}
	var heaps []*heap
	var systems []*system
	each := max(s.jobs/s.rounds, 1)
	b.progress.begin("fill", len(strings.Split(s.sizes, ",")))
	for text := range strings.SplitSeq(s.sizes, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || size < each {
			return fmt.Errorf("backlog %q: not a number, or less than the %d jobs of a round", text, each)
		}
		h, err := s.heap(ctx, b, size, counted)
		if err != nil {
			return err
		}
		heaps, systems = append(heaps, h), append(systems, h.system)
		b.progress.add()
	}
	rates, err := alternate(ctx, b, s.rounds, each, systems)
	if err != nil {
		return err
	}
	for i, h := range heaps {
		var first *system
		if i > 0 {
			first = heaps[0].system
		}
		r := rates.result(h.system, first)
		if h.total > 0 {
			r.Extra = map[string]float64{"discovery_share": h.looking / h.total}
		}
		b.report(r)
	}
	return nil
}

func (s *backlog) heap(ctx context.Context, b *bench, size int, counted bool) (*heap, error) {
	groups := min(s.groups, size)
	schema := fmt.Sprintf("backlog_%d", size)
	if err := migrate(ctx, b.pool, schema); err != nil {
		return nil, err
	}
	h := &heap{crew: &crew{db: b.database, schema: schema, groups: groups, lanes: s.lanes}}
	h.crew.prepare()
	if err := h.crew.fill(ctx, size); err != nil {
		return nil, err
	}
	if err := b.exec(ctx, "VACUUM ANALYZE "+h.crew.table()); err != nil {
		return nil, err
	}
	h.system = &system{
		name: fmt.Sprintf("pgfifo at %d", size), params: map[string]any{"backlog": size, "groups": groups, "lanes": s.lanes},
		work: func(ctx context.Context, n int) (took time.Duration, err error) {
			if counted {
				if err := b.resetStatements(ctx); err != nil {
					return 0, err
				}
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

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return migrations.Up(ctx, pool, &migrations.Config{Schema: schema})
}
