package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/receipt"
	"github.com/pgfifo/pgfifo/migrations"
)

const (
	parked = "parked" // a group that is paused
	doomed = "doomed" // a group whose jobs become dead letters
)

// produce is the life of a producer process, until SIGTERM: it takes down what it has sent. In the order of commits, so
// that the ids of what two producers send to one group say what order to expect.
func produce(ctx context.Context, pool *pgxpool.Pool, book *journal) error {
	client := fifo.Open(pool, &fifo.Config{CommitOrder: true})
	defer func() { _ = client.Close() }()
	for n := 0; ctx.Err() == nil; n++ {
		m := message(fmt.Sprint("g", n%7), task{})
		switch n % 20 {
		case 3:
			m.GroupID = parked
		case 5:
			m.GroupID, m.Payload, m.MaxAttempts = doomed, task{Do: "error"}, 1
		case 7:
			m.Payload = task{Do: "error", Until: 1}
		}
		ids, err := receipt.IDs(client.Enqueue(context.WithoutCancel(ctx), m))
		if err != nil {
			return err
		}
		book.write("sent", &fifo.Job{GroupID: m.GroupID, ID: ids[0]})
		_ = pause.For(ctx, 5*time.Millisecond)
	}
	return nil
}

// up is a process that migrates and ends. It gives way to running jobs, for as long as they take.
func up(ctx context.Context, pool *pgxpool.Pool, _ *journal) error {
	cfg := &migrations.Config{LockTimeout: 100 * time.Millisecond, LockTries: 1000}
	return errors.Join(migrations.Up(ctx, pool, cfg), migrations.Check(ctx, pool, ""))
}

// run starts a process of a release, "" being this one.
func (s *site) run(program, role string) *process {
	s.Helper()
	return s.launch(assignment{Program: program, Role: role, Lanes: 4}, (*exec.Cmd).Start)
}

// busy waits until each of the processes has sent or worked so many jobs more.
func (s *site) busy(more int, procs ...*process) {
	s.Helper()
	count := func() (n map[string]int) {
		n = make(map[string]int)
		for _, e := range s.events() {
			if e.kind == "sent" || e.kind == "end" {
				n[e.worker]++
			}
		}
		return n
	}
	before := count()
	s.within(60*time.Second, "each process to go on", func() bool {
		now := count()
		return !slices.ContainsFunc(procs, func(p *process) bool { return now[p.name] < before[p.name]+more })
	})
}

func (s *site) version() int {
	s.Helper()
	version, err := migrations.Version(s.Context(), s.pool, nil)
	require.NoError(s, err)
	return version
}

// Two releases work side by side: processes of the old one see the new one migrate, go on, and are started again
// beside processes of the new one. Nobody waits for the step, and everything is done once and in order.
func TestRollingUpgrade(t *testing.T) {
	s := newSite(t)
	next := nextRelease(t)
	open := s.gate()
	require.NoError(t, pausing(s.client.Queue(queue).Group(parked).Pause(t.Context(), "")))
	long := s.enqueue(message("long", task{Do: "gate"}))
	workers := []*process{s.run("", ""), s.run("", "")}
	producers := []*process{s.run("", "producer")}
	s.waiting(long[0], 1)

	// The step waits for the long job, which has the table, and in between everybody else passes.
	step := s.run(next, "up")
	s.until("the step to wait", func() bool {
		return s.number(`SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) > 0
	})
	s.busy(20, append(producers, workers...)...)
	require.Equal(t, migrations.Latest, s.version())
	open()
	s.await(step)
	require.Equal(t, migrations.Latest+1, s.version())
	s.busy(20, append(producers, workers...)...)

	// Old processes are started again, beside those that run on and new ones. Old Ups change nothing.
	s.kill(workers[1])
	workers = append(workers[:1], s.run(next, ""), s.run("", ""))
	producers = append(producers, s.run(next, "producer"), s.run("", "producer"))
	again := s.run("", "up")
	s.busy(40, append(producers, workers...)...)
	s.await(again)
	require.Equal(t, migrations.Latest+1, s.version())
	s.kill(workers[1])
	workers[1] = s.run(next, "")
	s.busy(20, append(producers, workers...)...)

	s.stop(producers...)
	require.Positive(t, s.number("SELECT count(*) FROM pgfifo.jobs WHERE next = 1"), "by the new release")
	require.Positive(t, s.number("SELECT count(*) FROM pgfifo.jobs WHERE next IS NULL"), "by the old one")
	_, err := s.client.Queue(queue).Group(parked).Resume(t.Context())
	require.NoError(t, err)
	s.drained()
	s.stop(workers...)

	s.replay()
	want := map[string][]int64{"long": long}
	for _, e := range s.events() {
		if e.kind == "sent" {
			want[e.group] = append(want[e.group], e.job)
		}
	}
	for _, ids := range want {
		slices.Sort(ids)
	}
	require.Equal(t, len(want[doomed]), s.number("SELECT count(*) FROM pgfifo.dead_letters"))
	require.NotEmpty(t, want[doomed])
	delete(want, doomed)
	require.Equal(t, want, s.effects())
}
