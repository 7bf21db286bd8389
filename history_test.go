package pgfifo_test

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A journal is what handlers did, in the order in which they did it: a file that every process appends to. One write
// is one line, made or not made when its process is killed, so there is no clock to compare and nothing arrives late.
// Lines have a length that divides a page: of a write over two pages, a process that is killed may leave the first
// half.
type journal struct {
	file   *os.File
	worker string
}

func openJournal(path, worker string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &journal{file, worker}, err
}

func (j *journal) write(kind string, job *fifo.Job) {
	group := job.GroupID
	if group == "" {
		group = "-"
	}
	line := fmt.Sprintf("%s %s %s %d %d", kind, j.worker, group, job.ID, job.Attempt())
	if _, err := fmt.Fprintf(j.file, "%-127s\n", line); err != nil {
		panic(err)
	}
}

// An event is a line of the journal.
type event struct {
	kind, worker, group string
	job                 int64
	attempt             int
}

// effects returns the committed effects, by group, in the order in which they were written.
func (s *site) effects() map[string][]int64 {
	s.Helper()
	rows, err := s.Pool.Query(s.Context(), "SELECT group_id, job_id FROM effects ORDER BY n")
	require.NoError(s, err)
	effects := make(map[string][]int64)
	var group string
	var id int64
	_, err = pgx.ForEachRow(rows, []any{&group, &id}, func() error {
		effects[group] = append(effects[group], id)
		return nil
	})
	require.NoError(s, err)
	return effects
}

// events returns the journal, of which only what is new is read. The list is the site's own.
func (s *site) events() []event {
	s.Helper()
	file, err := os.Open(s.journal)
	require.NoError(s, err)
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.NewSectionReader(file, s.read, math.MaxInt64-s.read))
	require.NoError(s, err)
	for line := range strings.Lines(string(text)) {
		var e event
		_, err := fmt.Sscan(line, &e.kind, &e.worker, &e.group, &e.job, &e.attempt)
		require.NoError(s, err, "%q", line)
		s.past = append(s.past, e)
	}
	s.read += int64(len(text))
	return s.past
}

// find returns the events of one kind of one job.
func (s *site) find(kind string, job int64) (found []event) {
	s.Helper()
	for _, e := range s.events() {
		if e.kind == kind && e.job == job {
			found = append(found, e)
		}
	}
	return found
}

// waiting waits until the given attempt of a job stands at the gate, and returns the name of its worker.
func (s *site) waiting(job int64, attempt int) (worker string) {
	s.Helper()
	s.until(fmt.Sprintf("attempt %d of job %d at the gate", attempt, job), func() bool {
		for _, e := range s.find("wait", job) {
			if e.attempt == attempt {
				worker = e.worker
			}
		}
		return worker != ""
	})
	return worker
}

// replay reads the journal as a referee, and returns how many groups ran at once at most.
func (s *site) replay() (peak int) {
	s.Helper()
	dead, err := s.client.Queue(queue).DeadLetters(s.Context(), fifo.Letters{Limit: 100_000})
	require.NoError(s, err)
	buried := func(id int64) bool {
		return slices.ContainsFunc(dead, func(d fifo.Job) bool { return d.ID == id })
	}
	running, last := make(map[string]event), make(map[string]event)
	for _, e := range s.events() {
		now, busy := running[e.group]
		switch e.kind {
		case "start":
			// Only after a worker's death may a job start though nobody said that the one before ended: the same
			// job, unless that was its last attempt.
			if busy {
				require.True(s, s.killed[now.worker], "%+v overlaps with %+v", e, now)
				require.True(s, e.job == now.job || buried(now.job), "%+v overtakes %+v", e, now)
				require.NotEqual(s, now.worker, e.worker)
			}
			before := last[e.group]
			require.GreaterOrEqual(s, e.job, before.job, "%+v after %+v", e, before)
			if e.job == before.job {
				require.Greater(s, e.attempt, before.attempt, "%+v after %+v", e, before)
			}
			running[e.group], last[e.group] = e, e
			peak = max(peak, len(running))
		case "end":
			e.kind = "start"
			require.Equal(s, now, e, "the end of something that does not run")
			delete(running, e.group)
		}
	}
	return peak
}
