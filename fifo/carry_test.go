package fifo_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgfifo/pgfifo/fifo"
)

// A job that is given up, buried, redriven or moved keeps what these do not decide on: each column of both tables is in
// the statements, also a new one.
func TestCarriedColumns(t *testing.T) {
	b := newBed(t)
	w := b.worker(failing(10, errOnPurpose), func(w *fifo.Worker) { w.MaxAttempts = 1 })
	ctx, job := t.Context(), int64(0)
	row := func(table string) (columns map[string]any) {
		columns = query[map[string]any](b, "SELECT to_jsonb(t) FROM pgfifo."+table+" t")
		for name, value := range columns {
			require.NotNil(t, value, name)
		}
		job = int64(columns["id"].(float64))
		for _, decided := range []string{"id", "attempts", "failures", "run_at", "died_at"} {
			delete(columns, decided)
		}
		return columns
	}
	due := func() { b.exec("UPDATE pgfifo.jobs SET run_at = '2026-01-01'") } // the tail has no time
	b.exec(`INSERT INTO pgfifo.jobs (queue, group_id, payload, headers, max_attempts, enqueued_at, failures, priority)
		VALUES ('q', 'g', 'p', '{"n": "v"}', 1, '2020-01-01', '[{"attempt": 1, "kind": "error", "error": "e",
		"worker": "w", "at": "2026-01-01T00:00:00Z"}]', 3)`)
	due()
	want := row("jobs")
	b.work(w)
	require.Equal(t, want, row("dead_letters"), "given up")
	b.redrive(b.q, again(job))
	require.Equal(t, want, row("jobs"), "redriven")
	require.NoError(t, b.q.Bury(ctx, job, "why"))
	require.Equal(t, want, row("dead_letters"), "buried")
	old := job
	b.redrive(b.q, toTail(named(job)))
	due()
	require.Equal(t, want, row("jobs"), "redriven to the tail")
	require.Greater(t, job, old)
	n, err := b.q.Move(ctx, b.client.Queue("r").Group("h"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	want["queue"], want["group_id"] = "r", "h"
	require.Equal(t, want, row("jobs"), "moved")
	forwards := b.bare(nil)
	forwards.HandleQueue("r", fifo.Queue{Handler: failing(10, errOnPurpose), DeadLetterQueue: "morgue"})
	r := b.run(forwards)
	await(t, "its move", func() bool { return b.count("jobs WHERE queue = 'morgue'") == 1 })
	require.NoError(t, r.stop())
	due()
	b.exec("UPDATE pgfifo.jobs SET max_attempts = 1, enqueued_at = '2020-01-01'") // as a new message, it has its own
	got := row("jobs")
	require.Subset(t, got["headers"], want["headers"], "it says where it was, too")
	want["queue"], want["headers"] = "morgue", got["headers"]
	require.Equal(t, want, got, "forwarded")
}
