package pgfifo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// However many worker processes are killed, a queue never runs more jobs at once than its limit says, and its slots do
// not get lost: it runs as many before and after.
func TestLimitUnderKill(t *testing.T) {
	const limit, kills = 3, 6
	s := newSite(t)
	require.NoError(t, s.client.Queue(queue).Configure(t.Context(), fifo.Settings{Limit: limit}))
	_, err := s.pool.Exec(t.Context(), "CREATE TABLE census (xid xid8 PRIMARY KEY, running integer)")
	require.NoError(t, err)
	ids := make(map[string][]int64)
	for range 30 {
		var msgs []fifo.Message
		for g := range 12 {
			msgs = append(msgs, message(fmt.Sprint("g", g), task{Do: "census"}))
		}
		for i, id := range s.enqueue(msgs...) {
			ids[msgs[i].GroupID] = append(ids[msgs[i].GroupID], id)
		}
	}
	done := func() int { return s.number("SELECT count(*) FROM effects") }
	procs := []*process{s.start(4), s.start(4), s.start(4)}
	for range kills {
		from := done()
		s.until("some jobs", func() bool { return done() >= from+20 })
		s.kill(procs[0])
		procs = append(procs[1:], s.start(4))
	}
	from := s.number("SELECT count(*) FROM census")
	s.within(time.Minute, "an empty queue", func() bool { return s.jobs() == 0 })
	s.stop(procs...)
	require.Equal(t, ids, s.effects())
	require.Equal(t, limit, s.number("SELECT max(running) FROM census"))
	require.Equal(t, limit,
		s.number("SELECT max(running) FROM (SELECT running FROM census ORDER BY xid OFFSET $1) later", from),
		"all slots are there in the end")
	s.replay()
}

// However many worker processes are killed, a group never runs more jobs at once than its limit says, and as many
// before and after; they start in order, and each is done once.
func TestGroupLimitUnderKill(t *testing.T) {
	const limit, kills, jobs = 3, 5, 200
	s := newSite(t)
	require.NoError(t, s.client.Queue(queue).Configure(t.Context(), fifo.Settings{GroupLimit: limit}))
	for _, sql := range []string{
		"CREATE TABLE census (xid xid8 PRIMARY KEY, running integer)",
		"CREATE TABLE starts (n serial, id bigint)",
		`CREATE FUNCTION started() RETURNS trigger LANGUAGE plpgsql AS
			'BEGIN INSERT INTO starts (id) VALUES (NEW.id); RETURN NEW; END'`,
		"CREATE TRIGGER started AFTER INSERT OR UPDATE ON pgfifo.attempt_marks FOR EACH ROW EXECUTE FUNCTION started()",
	} {
		_, err := s.pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	var msgs []fifo.Message
	for range jobs {
		msgs = append(msgs, message("g", task{Do: "census"}))
	}
	ids := s.enqueue(msgs...)
	done := func() int { return s.number("SELECT count(*) FROM effects") }
	procs := []*process{s.start(4), s.start(4)}
	for range kills {
		from := done()
		s.until("some jobs", func() bool { return done() >= from+15 })
		s.kill(procs[0])
		procs = append(procs[1:], s.start(4))
	}
	from := s.number("SELECT count(*) FROM census")
	s.within(time.Minute, "an empty queue", func() bool { return s.jobs() == 0 })
	s.stop(procs...)
	require.ElementsMatch(t, ids, s.effects()["g"])
	require.Equal(t, limit, s.number("SELECT max(running) FROM census"))
	require.Equal(t, limit,
		s.number("SELECT max(running) FROM (SELECT running FROM census ORDER BY xid OFFSET $1) later", from),
		"all slots are there in the end")
	require.Zero(t, s.number(`SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY min(n)) AS before
		FROM starts GROUP BY id) first WHERE id < before`), "starts out of order")
	require.Zero(t, s.number("SELECT count(*) FROM pgfifo.attempt_marks"))
}
