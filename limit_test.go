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
	t.Parallel()
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
