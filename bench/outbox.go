package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// outbox measures what notices cost transactions that enqueue, where a commit takes its time: a slow disk, or a
// standby that is waited for. Each client stands for a process of the application.
type outbox struct {
	clients, each int           // each with a pool of its own and so many transactions at once
	rest          time.Duration // after each transaction
	window        time.Duration // time of each system in a round
	rounds        int
}

func (s *outbox) run(ctx context.Context, b *bench) error {
	var contests []contest
	for _, call := range []string{"EnqueuePgxTx", "EnqueueTx", "InTx"} {
		silent := s.producers(b, producing{call: call, silent: true})
		loud := s.producers(b, producing{call: call})
		contests = append(contests, contest{system: silent}, contest{system: loud, to: silent, goal: atLeast(0.95)})
	}
	return hold(ctx, b, s.rounds, rateUnits, contests)
}

func (s *outbox) producers(b *bench, p producing) *system {
	params := map[string]any{"clients": s.clients, "each": s.each, "notifications": !p.silent}
	work := func(ctx context.Context, _ int) (each time.Duration, err error) {
		if err := b.exec(ctx, "TRUNCATE pgfifo.jobs, pgfifo.queue_groups"); err != nil {
			return 0, err
		}
		err = s.heard(ctx, b, func(ctx context.Context) (err error) {
			each, err = s.send(ctx, b, p)
			return err
		})
		return each, err
	}
	return &system{name: "pgfifo " + p.call, params: params, work: work}
}

func (s *outbox) send(ctx context.Context, b *bench, p producing) (time.Duration, error) {
	calls := make([]enqueueFunc, s.clients)
	for i := range calls {
		call, done, err := p.open(ctx, b.database, s.each)
		if err != nil {
			return 0, err
		}
		defer done()
		calls[i] = call
	}
	l := load{messages: 1, producers: s.clients * s.each}
	each, _, err := l.burst(ctx, s.window, func(ctx context.Context, producer int) error {
		_, err := calls[producer%s.clients](ctx, []fifo.Message{{Queue: queue, GroupID: groupID(producer)}})
		return errors.Join(err, pause.For(ctx, s.rest))
	})
	return each, err
}

// heard runs f while a session listens, as a worker's does.
func (s *outbox) heard(ctx context.Context, b *bench, f func(context.Context) error) error {
	conn, err := pgx.Connect(ctx, b.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, "LISTEN pgfifo"); err != nil {
		return err
	}
	return beside(ctx, f, func(over context.Context) error {
		for over.Err() == nil {
			if _, err := conn.WaitForNotification(over); err != nil && over.Err() == nil {
				return fmt.Errorf("listen: %w", err)
			}
		}
		return nil
	})
}
