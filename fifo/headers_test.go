package fifo_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pgfifo/pgfifo/fifo"
)

// everyHeader has every kind of name and value.
func everyHeader() fifo.Headers {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return fifo.Headers{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "empty": "", "bytes": string(every),
		"NUL": "a\x00b", "control": "\x01\x1f\x7f\r\n\t", "quotes": `\x00 \\ ' " {} , NULL`,
		"é '\" ?0 $1 \\": "日本\u2028", "object": `{"base64": "AA=="}`, "number": "1", "null": "null",
		strings.Repeat("n", 128): strings.Repeat("v", 4096),
	}
}

// Headers and priorities come out as they went in, whichever way that was, and on every way that a job takes.
func TestHeaders(t *testing.T) {
	sent := map[string]fifo.Message{ // by group
		"a": {Headers: everyHeader(), Priority: 9}, "b": {Headers: fifo.Headers{}},
		"c": {Headers: fifo.Headers{"n": "v"}, Priority: 1}, "d": {Priority: 2},
	}
	m := func(group string) fifo.Message {
		m := sent[group]
		m.Queue, m.GroupID, m.MaxAttempts = "q", group, 1
		return m
	}
	b, n := newBed(t), 0
	for kind, begin := range producers {
		p, once := begin(b), m("d")
		once.DedupID = kind
		for _, msgs := range [][]fifo.Message{
			{m("a")}, {m("b")}, {m("a"), m("b"), m("a"), m("c")}, {m("b"), m("b")}, {m("c"), once, once},
		} {
			p.send(msgs...)
			n += len(msgs)
		}
		n--
		require.NoError(t, p.commit())
	}
	b.sendAll(m("a"))
	b.sendAll(m("b"), m("a"))
	n += 3
	check := func(job *fifo.Job) {
		t.Helper()
		want, got := sent[job.GroupID], maps.Clone(job.Headers)
		maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "pgfifo-") }) // of a move
		require.Equal(t, want.Priority, job.Priority)
		require.Len(t, got, len(want.Headers))
		require.True(t, maps.Equal(want.Headers, got))
		require.True(t, job.Headers == nil || len(job.Headers) > 0)
	}
	all := func(jobs []fifo.Job) []fifo.Job {
		t.Helper()
		require.Len(t, jobs, n)
		for i := range jobs {
			check(&jobs[i])
		}
		return jobs
	}
	all(b.jobs())
	for _, queue := range []fifo.Queue{{}, {DeadLetterQueue: "morgue"}} {
		queue.Handler = func(_ context.Context, job *fifo.Job) error {
			check(job)
			return errBroken
		}
		w := b.bare(nil)
		w.HandleQueue("q", queue)
		r := b.run(w)
		await(t, "failures", func() bool { return b.count("jobs WHERE queue = 'q'") == 0 })
		require.NoError(t, r.stop())
		if queue.DeadLetterQueue != "" {
			break
		}
		for i, letter := range all(b.deadLetters()) {
			b.redrive(b.q, fifo.Redrive{Letters: named(letter.ID), ToTail: i%2 == 0})
		}
		all(b.jobs())
	}
	b.ledger.sent = nil // they have other ids now
	moved := all(b.jobs())[0]
	require.Equal(t, "morgue", moved.Queue)
	require.NoError(t, b.client.Queue("morgue").Bury(t.Context(), moved.ID, "enough"))
	letter := only(t, b.deadLetters())
	check(&letter)
}

// Headers count with the payload.
func TestLargeHeaders(t *testing.T) {
	b := newBed(t)
	m := fifo.Message{
		Queue: "q", GroupID: "g", Payload: make([]byte, fifo.MaxPayloadBytes-1000),
		Headers: fifo.Headers{"name": strings.Repeat("\x00", 996)},
	}
	b.receipts(m)
	for _, large := range []string{strings.Repeat("\x00", 997), strings.Repeat("x", 2*fifo.MaxPayloadBytes)} {
		m.Headers = fifo.Headers{"name": large}
		_, err := b.client.Enqueue(t.Context(), m)
		require.ErrorIs(t, err, fifo.ErrPayloadTooLarge)
	}
}

// What an operator writes by hand is given as it stands, and what is no object is none: the job runs.
func TestHeadersByHand(t *testing.T) {
	b := newBed(t)
	all := map[string]fifo.Headers{
		`[1]`: nil, `"text"`: nil, `{}`: nil, `null`: nil,
		`{"n": 1, "o": {"a": [true]}, "z": null, "b": {"base64": "?"}, "c": {"base64": "AA==", "more": 1}}`: {
			"n": "1", "o": `{"a": [true]}`, "z": "null", "b": `{"base64": "?"}`, "c": `{"more": 1, "base64": "AA=="}`,
		},
	}
	want := make(map[int64]fifo.Headers)
	for stored, headers := range all {
		id := b.send("g", "")[0]
		b.exec("UPDATE pgfifo.jobs SET headers = $1::text::jsonb WHERE id = $2", stored, id)
		want[id] = headers
	}
	jobs := b.jobs()
	require.Len(t, jobs, len(all))
	for _, job := range jobs {
		require.Equal(t, want[job.ID], job.Headers)
	}
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		require.Equal(t, want[job.ID], job.Headers)
		return nil
	}))
}

// An Enqueue hook adds headers, and the caller's stay as they are.
func TestHookSetsHeaders(t *testing.T) {
	var settled []fifo.Headers
	b := newBed(t, hooked(fifo.Hooks{
		Enqueue: func(ctx context.Context, msgs []fifo.Message) (context.Context, func([]fifo.Receipt, error)) {
			for i := range msgs {
				msgs[i].Headers["traceparent"] = "hook"
			}
			return ctx, nil
		},
		Settled: func(_ context.Context, job *fifo.Job, _ fifo.Outcome, _ error) {
			settled = append(settled, maps.Clone(job.Headers))
		},
	}))
	mine := fifo.Headers{"mine": "1"}
	b.sendAll(fifo.Message{Queue: "q", GroupID: "g", Headers: mine}, fifo.Message{Queue: "q", GroupID: "g"})
	require.Equal(t, fifo.Headers{"mine": "1"}, mine)
	b.work(b.worker(func(_ context.Context, job *fifo.Job) error {
		require.Equal(t, "hook", job.Headers["traceparent"])
		job.Headers["traceparent"] = "handler" // and the hooks behind it are told what was sent
		return nil
	}, oneLane))
	require.Equal(t, []fifo.Headers{{"mine": "1", "traceparent": "hook"}, {"traceparent": "hook"}}, settled)
}

func TestHeadersAsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })
		values := rapid.OneOf(rapid.String(), bytes)
		h := fifo.Headers(rapid.MapOf(rapid.StringMatching(`[a-zé"\\{ ]{1,20}`), values).Draw(t, "headers"))
		stored, err := json.Marshal(h)
		require.NoError(t, err)
		require.NotContains(t, string(stored), `\u0000`, "jsonb has no such character in a value")
		var got fifo.Headers
		require.NoError(t, json.Unmarshal(stored, &got))
		require.Equal(t, h, got)
	})
}

// A job may run from an absolute time on, by the server's clock.
func TestRunAt(t *testing.T) { overLeases(t, testRunAt) }

func testRunAt(t *testing.T, by lease) {
	b := by.on(newBed(t))
	at := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	for kind, begin := range producers {
		p := begin(b)
		later := fifo.Message{Queue: "q", GroupID: "later " + kind, RunAt: at.In(time.FixedZone("", 3600))}
		past := fifo.Message{Queue: "q", GroupID: kind, RunAt: time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC)}
		recent := fifo.Message{Queue: "q", GroupID: kind, RunAt: time.Now().Add(-time.Minute)}
		p.send(later)
		p.send(past, later, recent)
		require.NoError(t, p.commit())
	}
	jobs := b.jobs()
	require.Len(t, jobs, 4*len(producers))
	for _, j := range jobs {
		if strings.HasPrefix(j.GroupID, "later") {
			require.True(t, at.Equal(j.RunAt), "%v", j.RunAt)
		} else {
			require.Zero(t, j.RunAt)
		}
	}
	b.run(b.worker(nop))
	await(t, "what may run", func() bool { return b.count("jobs") == 2*len(producers) })
	require.Len(t, b.jobs(), 2*len(producers))
	b.exec("UPDATE pgfifo.jobs SET run_at = statement_timestamp()")
	b.drained()
}
