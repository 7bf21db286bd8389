package pgfifo_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/killbench"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// job returns a job of the queue that is not done.
func (s *site) job(id int64) fifo.Job {
	s.Helper()
	jobs, err := s.client.Queue(queue).Jobs(s.Context(), fifo.Page{})
	require.NoError(s, err)
	for _, job := range jobs {
		if job.ID == id {
			return job
		}
	}
	require.FailNow(s, "no such job", "%d", id)
	return fifo.Job{}
}

// requireLost checks a history of nothing but lost attempts.
func (s *site) requireLost(failures []fifo.Failure, n int) {
	s.Helper()
	require.Len(s, failures, n)
	for i, failure := range failures {
		require.Equal(s, fifo.KindLost, failure.Kind)
		require.Equal(s, i+1, failure.Attempt)
	}
}

func TestKilledWorkersJobRunsAgain(t *testing.T) {
	const kills = 4
	s := newSite(t)
	open := s.gate()
	ids := s.enqueue(message("g", task{}), message("g", task{Do: "gate"}), message("g", task{}))
	procs := make(map[string]*process)
	for range 2 {
		p := s.start(2)
		procs[p.name] = p
	}
	for attempt := 1; attempt <= kills; attempt++ {
		worker := s.waiting(ids[1], attempt) // idle in its transaction, with the effect written
		s.kill(procs[worker])
		delete(procs, worker)
		p := s.start(2)
		procs[p.name] = p
		require.NotEqual(t, worker, s.waiting(ids[1], attempt+1))
		job := s.job(ids[1])
		require.Equal(t, attempt, job.Attempts)
		s.requireLost(job.Failures, attempt)
	}
	open()
	s.drained()
	for _, p := range procs {
		s.stop(p)
	}
	require.Equal(t, map[string][]int64{"g": ids}, s.effects())
	require.Equal(t, kills+1, s.number("SELECT attempt FROM effects WHERE job_id = $1", ids[1]))
	s.replay()
}

// The server notices the death of a client whose statement is running by looking, once a second.
func TestKilledInQuery(t *testing.T) {
	s := newSite(t)
	ids := s.enqueue(message("g", task{Do: "query", Until: 1}), message("g", task{}))
	first := s.start(1)
	s.until("a running statement", func() bool {
		return s.number("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "+
			"AND wait_event = 'PgSleep'") == 1
	})
	second := s.start(1)
	s.kill(first)
	s.drained()
	s.stop(second)
	require.Equal(t, map[string][]int64{"g": ids}, s.effects())
	again := s.find("start", ids[0])
	require.Len(t, again, 2)
	require.Equal(t, 2, again[1].attempt)
	s.replay()
}

// A job that takes its process down with it is given up like any other, and its group goes on.
func TestPoisonJobBecomesDeadLetter(t *testing.T) {
	pgtest.OverEach(t, []string{"exit", "kill"}, func(t *testing.T, how string) {
		const lives = 3
		s := newSite(t)
		poison := message("g", task{Do: how})
		poison.MaxAttempts = lives
		ids := s.enqueue(message("g", task{}), poison, message("g", task{}), message("g", task{}))

		deaths := 0
		for p := s.start(2); ; p = s.start(2) { // as a supervisor would
			s.until("a death, or the end of the work", func() bool {
				select {
				case <-p.exited:
					return true
				default:
					return s.jobs() == 0
				}
			})
			if s.jobs() == 0 {
				s.stop(p)
				break
			}
			require.Error(t, p.err)
			s.killed[p.name] = true
			deaths++
			require.LessOrEqual(t, deaths, lives)
		}
		require.Equal(t, lives, deaths)
		require.Len(t, s.find("start", ids[1]), lives)
		dead, err := s.client.DeadLetters(t.Context(), fifo.Letters{})
		require.NoError(t, err)
		require.Len(t, dead, 1)
		require.Equal(t, ids[1], dead[0].ID)
		require.Equal(t, lives, dead[0].Attempts)
		s.requireLost(dead[0].Failures, lives)
		require.Equal(t, map[string][]int64{"g": {ids[0], ids[2], ids[3]}}, s.effects())
		s.replay()
	})
}

func TestSIGTERMDrains(t *testing.T) {
	const lanes = 4
	s := newSite(t)
	open := s.gate()
	want := make(map[string][]int64)
	var running []int64
	for i := range lanes + 1 { // one group more than lanes
		group := fmt.Sprint("g", i)
		want[group] = s.enqueue(message(group, task{Do: "gate"}), message(group, task{}))
	}
	p := s.start(lanes)
	s.until("a job on every lane", func() bool {
		running = nil
		for _, e := range s.events() {
			if e.kind == "wait" {
				running = append(running, e.job)
			}
		}
		return len(running) == lanes
	})
	s.terminate(p)
	s.until("the news of it", func() bool {
		events := s.events()
		return events[len(events)-1].kind == "term"
	})
	open()
	s.await(p)

	var done []int64
	for _, ids := range s.effects() {
		done = append(done, ids...)
	}
	require.ElementsMatch(t, running, done, "what ran was finished, and nothing was started")
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.jobs WHERE attempts > 0"))

	p = s.start(lanes)
	s.drained()
	s.stop(p)
	require.Equal(t, want, s.effects())
	for _, e := range s.events() {
		require.LessOrEqual(t, e.attempt, 1, "%+v", e)
	}
	s.replay()
}

func TestKillRecovery(t *testing.T) {
	t.Parallel()
	const kills = 5
	ctx, cancel := context.WithTimeout(t.Context(), 6*patience)
	defer cancel()
	recoveries, err := killbench.Run(ctx, killbench.Config{
		URL: pgtest.URL(t), Queue: queue, Jobs: 4, Survivors: 2, Logf: t.Logf,
	}, kills)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(recoveries), kills)
}
