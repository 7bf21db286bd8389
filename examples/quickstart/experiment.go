package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgfifo/pgfifo/fifo"
)

// experiment asks for the transfers, has them worked, kills a worker meanwhile, and reports whether the data is right.
func experiment(
	ctx context.Context, pool *pgxpool.Pool, client *fifo.Client, transfers int, a assignment,
) (bool, error) {
	r := &report{
		jobs: 2 * transfers, transactions: (transfers + batchSize - 1) / batchSize,
	}
	start := time.Now()
	if err := produce(ctx, pool, client, transfers); err != nil {
		return false, err
	}
	r.enqueued = time.Since(start)

	f := new(fleet)
	defer func() { _, _ = f.stop() }() // unless it was stopped below
	for i := range workers {
		a.Name = fmt.Sprintf("worker-%d", i+1)
		if err := f.start(a); err != nil {
			return false, err
		}
	}
	if err := watch(ctx, pool, client, f, r); err != nil {
		return false, err
	}
	var err error
	if r.lost, err = f.stop(); err != nil {
		return false, err
	}
	if err := r.measure(ctx, pool); err != nil {
		return false, err
	}
	if r.findings, err = prove(ctx, pool, client, r.held, r.lost); err != nil {
		return false, err
	}
	r.print(os.Stdout)
	return r.ok(), nil
}

// watch waits until the queue is empty, and kills the last worker when half of the work is done.
func watch(ctx context.Context, pool *pgxpool.Pool, client *fifo.Client, f *fleet, r *report) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for seen, since := int64(0), time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var done int64
		if err := pool.QueryRow(ctx, "SELECT count(*) FROM ledger").Scan(&done); err != nil {
			return err
		}
		if done > seen {
			seen, since = done, time.Now()
		} else if time.Since(since) > time.Minute {
			return errors.New("the workers have done nothing for a minute")
		}

		if r.victim == "" && done >= int64(r.jobs)/2 {
			if err := strike(ctx, pool, client, f, r); err != nil {
				return err
			}
			r.at = done
		}
		left, err := client.Queue(queue).Groups(ctx, fifo.Page{Limit: 1})
		if err != nil {
			return err
		}
		if len(left) == 0 {
			if r.victim == "" {
				return errors.New("the work was done before a worker could be killed; make more -transfers")
			}
			return nil
		}
	}
}

// strike kills a worker if it holds groups at the moment.
func strike(ctx context.Context, pool *pgxpool.Pool, client *fifo.Client, f *fleet, r *report) error {
	victim := (*f)[len(*f)-1]
	held, err := client.Queue(queue).Groups(ctx, fifo.Page{Limit: accounts}, fifo.Held)
	if err != nil {
		return err
	}
	for _, s := range held {
		if s.ApplicationName == victim.name {
			r.held++
		}
	}
	if r.held == 0 {
		return nil // the next look may find it at work
	}
	r.victim, r.pid = victim.name, victim.cmd.Process.Pid
	fmt.Printf("killing %s now, on purpose: warnings of lost attempts follow\n", r.victim)
	if err := pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&r.killedAt); err != nil {
		return err
	}
	return f.kill()
}
