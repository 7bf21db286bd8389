package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/jackc/pgx/v5"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
)

// delayed asks what many groups cost that are not due, and how late others start beside them.
type delayed struct {
	groups, lanes, messages int
	settle, measure         time.Duration
}

func (s *delayed) flags(f *flag.FlagSet) {
	f.IntVar(&s.groups, "groups", 1_000_000, "groups that are delayed by an hour")
	f.IntVar(&s.lanes, "lanes", 16, "jobs at once")
	f.IntVar(&s.messages, "messages", 1000,
		"jobs delayed by a second, each in a group of its own, ten milliseconds apart")
	f.DurationVar(&s.settle, "settle", time.Minute, "time for a worker to come to rest")
	f.DurationVar(&s.measure, "for", 30*time.Second, "time to measure an idle worker")
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
	err = s.serve(ctx, b, newPunctuality(0), func(ctx context.Context, _ *fifo.Client) error { return s.idle(ctx, b) })
	if err != nil {
		return err
	}
	for _, settle := range []time.Duration{s.settle, 0} {
		l := newPunctuality(s.messages)
		err := s.serve(ctx, b, l, func(ctx context.Context, client *fifo.Client) error {
			if err := pause.For(ctx, settle); err != nil {
				return err
			}
			return l.send(ctx, client)
		})
		if err != nil {
			return err
		}
		l.report(b, s.groups, settle == 0)
	}
	return nil
}

// serve runs a worker for as long as meanwhile takes.
func (s *delayed) serve(
	ctx context.Context, b *bench, l *punctuality, meanwhile func(context.Context, *fifo.Client) error,
) error {
	worker := &fifo.Worker{Concurrency: s.lanes}
	worker.Handle(queue, l.handle)
	return b.employ(ctx, worker, new(fifo.Config), nil, meanwhile)
}

// idle measures the processor time of the worker and of its sessions, as a part of one core.
func (s *delayed) idle(ctx context.Context, b *bench) error {
	if err := pause.For(ctx, s.settle); err != nil {
		return err
	}
	rows, err := b.pool.Query(ctx, "SELECT pid FROM pg_stat_activity WHERE application_name = $1", workerName)
	if err != nil {
		return err
	}
	sessions, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return err
	}
	own := []int32{int32(os.Getpid())}
	var used [2]float64
	before := [2]map[int32]float64{processorTimes(ctx, own), processorTimes(ctx, sessions)}
	begin := time.Now()
	if err := pause.For(ctx, s.measure); err != nil {
		return err
	}
	for n, pids := range [][]int32{own, sessions} {
		for pid, spent := range processorTimes(ctx, pids) {
			used[n] += spent - before[n][pid]
		}
	}
	took := time.Since(begin).Seconds()
	proc, err := process.NewProcessWithContext(ctx, own[0])
	if err != nil {
		return err
	}
	resident, err := (&draining{proc: proc}).rest(ctx)
	if err != nil {
		return err
	}
	client, server := 100*used[0]/took, 100*used[1]/took
	b.report(Result{
		System: "pgfifo, idle", Params: map[string]any{"groups": s.groups, "lanes": s.lanes},
		Extra: map[string]float64{
			"client_percent": client, "server_percent": server, "percent": client + server, "rss_mib": resident,
		},
		Goal: atMost(2, "percent"),
	})
	return nil
}

// processorTimes returns how many seconds each of the processes, which are on this machine, has used so far. One that
// has ended is left out.
func processorTimes(ctx context.Context, pids []int32) map[int32]float64 {
	all := make(map[int32]float64)
	for _, pid := range pids {
		p, err := process.NewProcessWithContext(ctx, pid)
		if err != nil {
			continue
		}
		if t, err := p.TimesWithContext(ctx); err == nil {
			all[pid] = t.User + t.System
		}
	}
	return all
}

// punctuality notes by how much jobs start too late: each once when its delay is over, and once when it has failed.
type punctuality struct {
	mu               sync.Mutex
	due              map[string]time.Time // by group
	left             int
	delayed, retried *hdrhistogram.Histogram
}

func newPunctuality(messages int) *punctuality {
	return &punctuality{
		due: make(map[string]time.Time), left: messages, delayed: newHistogram(), retried: newHistogram(),
	}
}

func (l *punctuality) send(ctx context.Context, client *fifo.Client) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := range l.left {
		id := fmt.Sprintf("late%d", i)
		l.mu.Lock()
		l.due[id] = time.Now().Add(lateBy)
		l.mu.Unlock()
		if _, err := client.Enqueue(ctx, fifo.Message{Queue: queue, GroupID: id, Delay: lateBy}); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return until(ctx, func() (bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.left == 0, nil
	})
}

func (l *punctuality) handle(_ context.Context, job *fifo.Job) error {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	late := now.Sub(l.due[job.GroupID])
	if job.Attempt() == 1 {
		record(l.delayed, late)
		l.due[job.GroupID] = time.Now().Add(lateBy)
		return fifo.RetryAfter(lateBy, errors.New("to be tried again"))
	}
	record(l.retried, late)
	l.left--
	return nil
}

func (l *punctuality) report(b *bench, groups int, started bool) {
	for _, part := range []struct {
		name string
		late *hdrhistogram.Histogram
	}{{"delay", l.delayed}, {"backoff", l.retried}} {
		r := Result{System: "pgfifo, " + part.name, Params: map[string]any{"groups": groups, "just_started": started}}
		r.quantiles(part.late)
		r.Extra = map[string]float64{"max_ms": millis(part.late.Max())}
		r.Goal = atMost(50, "p99_ms")
		b.report(r)
	}
}
