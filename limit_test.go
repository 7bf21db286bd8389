package pgfifo_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// census lets tasks count the jobs that run.
func (s *site) census() {
	s.Helper()
	s.Exec("CREATE TABLE census (xid xid8 PRIMARY KEY, running integer)")
}

// requireLimit has worker processes of four lanes work all jobs, while so many are killed, one every so many jobs. The
// last jobs wait at the gate. Never do more than limit jobs run at once, and as many do in the end.
func (s *site) requireLimit(limit, workers, kills, jobs int) {
	s.Helper()
	done := func() int { return s.number("SELECT count(*) FROM effects") }
	open := s.gate()
	procs := s.crew(workers, 4)
	for range kills {
		from := done()
		s.until("some jobs", func() bool { return done() >= from+jobs })
		s.kill(procs[0])
		procs = append(procs[1:], s.start(4))
	}
	s.within(30*time.Second, "as many jobs at the gate as the limit says", func() bool {
		return limit == s.number(`SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE locktype = 'advisory' AND NOT granted AND objid = $1 AND d.datname = current_database()`, gateKey)
	})
	open()
	s.within(time.Minute, "an empty queue", func() bool { return s.jobs() == 0 })
	s.stop(procs...)
	require.Equal(s, limit, s.number("SELECT max(running) FROM census"))
}

// However many worker processes are killed, a queue never runs more jobs at once than its limit says, and its slots do
// not get lost: it runs as many before and after.
func TestLimitUnderKill(t *testing.T) {
	const limit = 3
	s := newSite(t)
	require.NoError(t, s.client.Queue(queue).Configure(t.Context(), fifo.Settings{Limit: limit}))
	s.census()
	s.task = task{Do: "census"}
	ids := s.fill(12, 12)
	for group := range ids {
		ids[group] = append(ids[group], s.enqueue(message(group, task{Do: "last"}))...)
	}
	s.requireLimit(limit, 3, 3, 12)
	require.Equal(t, ids, s.effects())
	s.replay()
}

// However many worker processes are killed, a group never runs more jobs at once than its limit says, and as many
// before and after; they start in order, and each is done once.
func TestGroupLimitUnderKill(t *testing.T) {
	const limit = 3
	s := newSite(t)
	require.NoError(t, s.client.Queue(queue).Configure(t.Context(), fifo.Settings{GroupLimit: limit}))
	s.census()
	s.Exec("CREATE TABLE starts (n serial, id bigint)")
	s.Exec(`CREATE FUNCTION started() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN INSERT INTO starts (id) VALUES (NEW.id); RETURN NEW; END'`)
	s.Exec(`CREATE TRIGGER started AFTER INSERT OR UPDATE ON pgfifo.attempt_marks
		FOR EACH ROW EXECUTE FUNCTION started()`)
	ids := s.enqueue(slices.Concat(
		slices.Repeat([]fifo.Message{message("g", task{Do: "census"})}, 140),
		slices.Repeat([]fifo.Message{message("g", task{Do: "last"})}, 2*limit))...)
	s.requireLimit(limit, 2, 3, 12)
	require.ElementsMatch(t, ids, s.effects()["g"])
	require.Zero(t, s.number(`SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY min(n)) AS before
		FROM starts GROUP BY id) first WHERE id < before`), "starts out of order")
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.attempt_marks"))
}
