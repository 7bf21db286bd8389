package pgfifo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pause"
	"github.com/pgfifo/pgfifo/internal/pgtest/receipt"
	"github.com/pgfifo/pgfifo/internal/torture/overlay"
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
	return s.launch(assignment{Program: program, Role: role, Lanes: 2}, (*exec.Cmd).Start)
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
	version, err := migrations.Version(s.Context(), s.Pool, nil)
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
	s.busy(10, append(producers, workers...)...)
	require.Equal(t, migrations.Latest, s.version())
	open()
	s.await(step)
	require.Equal(t, migrations.Latest+1, s.version())
	s.busy(10, append(producers, workers...)...)

	// Old processes are started again, beside those that run on and new ones. Old Ups change nothing.
	s.kill(workers[1])
	workers = append(workers[:1], s.run(next, ""), s.run("", ""))
	producers = append(producers, s.run(next, "producer"), s.run("", "producer"))
	again := s.run("", "up")
	s.busy(20, append(producers, workers...)...)
	s.await(again)
	require.Equal(t, migrations.Latest+1, s.version())
	s.kill(workers[1])
	workers[1] = s.run(next, "")
	s.busy(10, append(producers, workers...)...)

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

// A made-up step behind the latest one, as the rules for steps want it: a column that may be null, and a table.
const (
	nextUp = `
		ALTER TABLE pgfifo.jobs ADD COLUMN next integer;
		CREATE TABLE pgfifo.next ();`
	nextDown = `
		DROP TABLE pgfifo.next;
		ALTER TABLE pgfifo.jobs DROP COLUMN next;`
	says = `
		CREATE OR REPLACE FUNCTION pgfifo.schema_version() RETURNS integer LANGUAGE sql AS 'SELECT %d';
		CREATE OR REPLACE FUNCTION pgfifo.serves_from() RETURNS integer LANGUAGE sql AS 'SELECT %d';`
)

// nextRelease builds this test binary once more as a release with that step, whose producers write to the column.
func nextRelease(t *testing.T) (program string) {
	t.Helper()
	if testing.Short() {
		t.Skip("not in -short: it builds another release")
	}
	const latest = migrations.Latest
	texts := map[string]string{
		fmt.Sprintf("migrations/sql/%04d_next.up.sql", latest+1): nextUp + fmt.Sprintf(says, latest+1, latest),
		fmt.Sprintf("migrations/sql/%04d_next.down.sql", latest+1): nextDown +
			fmt.Sprintf(says, latest, max(latest-1, 1)),
	}
	for file, changes := range map[string][]string{
		"migrations/migrations.go": {
			fmt.Sprintf("const Latest = %d\n", latest), fmt.Sprintf("const Latest = %d\n", latest+1),
		},
		"fifo/sql/enqueue.sql": {
			"INSERT INTO pgfifo.jobs (queue, ", "INSERT INTO pgfifo.jobs (next, queue, ",
			"SELECT m.queue, ", "SELECT 1, m.queue, ",
		},
	} {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(b)
		for i := 0; i < len(changes); i += 2 {
			require.Equal(t, 1, strings.Count(text, changes[i]), "%s: %s", file, changes[i])
			text = strings.Replace(text, changes[i], changes[i+1], 1)
		}
		texts[file] = text
	}
	return buildWith(t, texts)
}

// buildWith builds this test binary once more, with other texts in the place of some files, or skips the test.
func buildWith(t *testing.T, texts map[string]string) (program string) {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command to build this test binary once more: ", err)
	}
	dir, all := t.TempDir(), make(map[string]string)
	for file, text := range texts {
		path, err := filepath.Abs(filepath.FromSlash(file))
		require.NoError(t, err)
		all[path] = text
	}
	list, err := overlay.Write(dir, all)
	require.NoError(t, err)
	program = filepath.Join(dir, "other.test.exe")
	build := exec.CommandContext(t.Context(), tool, "test", "-c", "-ldflags=-s", "-overlay", list, "-o", program, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}
