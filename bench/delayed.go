package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// delayed asks what many groups cost that are delayed by an hour, and how late others start beside them.
type delayed struct {
	groups, lanes int
	messages      int           // delayed by a second, each in a group of its own, ten milliseconds apart
	settle        time.Duration // for a worker to come to rest
	measure       time.Duration // of an idle worker
}

// lateBy is what the messages are delayed by, and what they wait after they have failed once.
const lateBy = time.Second

func (s *delayed) run(ctx context.Context, b *bench) error {
	_, err := b.pool.Exec(ctx, "INSERT INTO pgfifo.jobs (queue, group_id, payload, run_at) "+
		"SELECT $1, "+fmt.Sprintf(groupSQL, "n")+", '', statement_timestamp() + interval '1 hour' "+
		"FROM generate_series(1, $2::integer) n", queue, s.groups)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	if err := b.exec(ctx, "VACUUM ANALYZE pgfifo.jobs"); err != nil {
		return err
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	worker := &fifo.Worker{Concurrency: s.lanes}
	worker.Handle(queue, new(punctuality).handle)
	err = b.employ(ctx, worker, new(fifo.Config), func(ctx context.Context) error { return s.idle(ctx, b) })
	if err != nil {
		return err
	}
	for _, settle := range []time.Duration{s.settle, 0} {
		if err := s.lateness(ctx, b, settle); err != nil {
			return err
		}
	}
	return nil
}

// lateness measures with a worker that has had so much time to come to rest.
func (s *delayed) lateness(ctx context.Context, b *bench, settle time.Duration) error {
	l := &punctuality{delayed: newHistogram(), retried: newHistogram()}
	worker := &fifo.Worker{Concurrency: s.lanes}
	worker.Handle(queue, l.handle)
	err := b.employ(ctx, worker, new(fifo.Config), func(ctx context.Context) error {
		if err := pause.For(ctx, settle); err != nil {
			return err
		}
		return l.send(ctx, worker.Client, s.messages)
	})
	if err != nil {
		return err
	}
	params := map[string]any{"groups": s.groups, "just_started": settle == 0}
	for i, late := range []*histogram{l.delayed, l.retried} {
		r := Result{System: "pgfifo, " + []string{"delay", "backoff"}[i], Params: params, Goal: atMost(50, "p99_ms")}
		r.latencies(late)
		b.report(r)
	}
	return nil
}

// idle measures the processor time of the worker and of its sessions, as a part of one core.
func (s *delayed) idle(ctx context.Context, b *bench) error {
	if err := pause.For(ctx, s.settle); err != nil {
		return err
	}
	rows, _ := b.pool.Query(ctx, `SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = $1`, workerName)
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return err
	}
	var client, server [2]float64 // before and after
	begin := time.Now()
	for i, rest := range []time.Duration{0, s.measure} {
		if err = pause.For(ctx, rest); err != nil {
			return err
		}
		if client[i], err = processorTime(ctx, int32(os.Getpid())); err != nil {
			return err
		}
		if server[i], err = processorTime(ctx, sessions...); err != nil {
			return err
		}
	}
	core := time.Since(begin).Seconds() / 100
	resident, err := restingResident(ctx)
	ofClient, ofServer := (client[1]-client[0])/core, (server[1]-server[0])/core
	b.report(Result{
		System: "pgfifo, idle", Params: map[string]any{"groups": s.groups, "lanes": s.lanes},
		Extra: map[string]float64{
			"client_percent": ofClient, "server_percent": ofServer, "percent": ofClient + ofServer,
			"rss_mib": resident,
		},
		Goal: atMost(2, "percent"),
	})
	return err
}

// processorTime returns how many seconds processes, which are on this machine, have used so far.
func processorTime(ctx context.Context, pids ...int32) (sum float64, err error) {
	for _, pid := range pids {
		p := process.Process{Pid: pid}
		t, err := p.TimesWithContext(ctx)
		if err != nil {
			return 0, err
		}
		sum += t.User + t.System
	}
	return sum, nil
}

// punctuality notes by how much jobs start too late: each once when its delay is over, and once when it has failed.
type punctuality struct {
	due              sync.Map // time.Time by group
	done             atomic.Int64
	delayed, retried *histogram
}

func (l *punctuality) send(ctx context.Context, client *fifo.Client, messages int) error {
	err := every(ctx, 10*time.Millisecond, messages, func(i int) error {
		id := fmt.Sprintf("late%d", i)
		l.due.Store(id, time.Now().Add(lateBy))
		_, err := client.Enqueue(ctx, fifo.Message{Queue: queue, GroupID: id, Delay: lateBy})
		return err
	})
	if err != nil {
		return err
	}
	return until(ctx, func() (bool, error) { return l.done.Load() == int64(messages), nil })
}

func (l *punctuality) handle(_ context.Context, job *fifo.Job) error {
	now := time.Now()
	due, _ := l.due.Load(job.GroupID)
	late := now.Sub(due.(time.Time))
	if job.Attempt() == 1 {
		l.delayed.record(late)
		l.due.Store(job.GroupID, time.Now().Add(lateBy))
		return fifo.RetryAfter(lateBy, errors.New("to be tried again"))
	}
	l.retried.record(late)
	l.done.Add(1)
	return nil
}
