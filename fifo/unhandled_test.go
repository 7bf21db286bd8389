package fifo_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
	"github.com/pgfifo/pgfifo/internal/pgtest"
)

// Jobs in a queue that the worker does not handle are told of once, when they have waited for long. What is held,
// paused or not due yet is not, nor what the worker handles or what has just come.
func TestUnhandledQueueIsTold(t *testing.T) {
	log := &logFile{}
	b := newBed(t, log.set)
	const interval = 20 * time.Millisecond
	const old = "now() - interval '1 hour'"
	insert := func(queue, group, at, due string) {
		b.exec(fmt.Sprintf(`INSERT INTO pgfifo.jobs (queue, group_id, payload, enqueued_at, run_at)
			VALUES ('%s', '%s', 'secret', %s, %s)`, queue, group, at, due))
	}
	insert("typo", "a", old, "NULL")
	insert("typo", "b", old, "NULL")
	insert("seen", "a", old, old)
	insert("held", "a", old, "NULL")
	insert("kept", "a", old, "NULL")
	insert("paused", "a", old, "NULL")
	insert("grouppaused", "a", old, "NULL")
	insert("delayed", "a", old, "now() + interval '1 hour'")
	insert("parked", "a", old, "'infinity'")
	insert("q", "paused", old, "NULL")
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id) VALUES ('seen', 'a')")
	b.exec(`INSERT INTO pgfifo.pauses (queue, group_id) VALUES
		('paused', ''), ('grouppaused', 'a'), ('q', 'paused'), ('typo', 'b')`)
	holder := pgtest.Conn(t, b.url)
	_, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM pgfifo.jobs WHERE queue = 'held' FOR NO KEY UPDATE")
	require.NoError(t, err)
	keeper := pgtest.Conn(t, b.url)
	_, err = keeper.Exec(t.Context(), "SELECT pg_advisory_lock(77)")
	require.NoError(t, err)
	b.exec("INSERT INTO pgfifo.queue_groups (queue, group_id, session, job) VALUES ('kept', 'a', 77, 1)")

	sweeping := func(w *fifo.Worker) { w.SweepInterval = interval }
	r := b.run(b.worker(nop, sweeping))
	const what = "a queue that this worker does not handle; another worker may"
	await(t, "what is old", func() bool { return len(log.lines(what)) == 2 })
	require.Len(t, log.lines("queue=typo group=a waits=1h0m"), 1)
	require.Len(t, log.lines("seen=false"), 1)
	require.Len(t, log.lines("queue=seen group=a waits=1h0m"), 1)
	require.Len(t, log.lines("seen=true"), 1)
	for _, line := range log.lines(what) {
		require.Contains(t, line, "level=WARN")
	}

	came := time.Now()
	insert("late", "a", "now()", "NULL")
	await(t, "what has become old", func() bool { return len(log.lines("queue=late")) == 1 })
	require.GreaterOrEqual(t, time.Since(came), 10*interval)
	_, err = holder.Exec(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	await(t, "what was held", func() bool { return len(log.lines("queue=held")) == 1 })
	require.Empty(t, log.lines("queue=kept"))
	b.gone(keeper)
	await(t, "what a session had", func() bool { return len(log.lines("queue=kept")) == 1 })
	require.Len(t, log.lines(what), 5, "each once")
	require.NoError(t, r.stop())

	b.run(b.worker(nop, sweeping))
	await(t, "what is told by the next run", func() bool { return len(log.lines(what)) == 10 })
	require.Empty(t, log.lines("secret"))
	require.Empty(t, log.lines("sweep failed"))
}
